package coproc

import (
	"sync/atomic"
	"syscall"

	"crew/runner/kernel"
)

// bell wakes a loop that sleeps in poll(2). Ringing costs a system call only then.
type bell struct {
	state atomic.Int32
	fd    int // of a pipe, for reading; -1 before it is first needed, and if there is none to be had
	to    int // its other end
}

// States of a bell.
const (
	awake int32 = iota
	asleep
	rung
)

// ring wakes the loop, or keeps it from sleeping.
func (b *bell) ring() {
	if b.state.Swap(rung) == asleep && b.fd >= 0 {
		_, _ = syscall.Write(b.to, []byte{0})
	}
}

// sleep is called before poll(2). It returns false if the bell has rung since the last
// call of rang.
func (b *bell) sleep() bool {
	if b.fd < 0 {
		var ends [2]int
		if err := kernel.Pipe(&ends); err == nil {
			b.fd, b.to = ends[0], ends[1]
		}
	}
	return b.state.CompareAndSwap(awake, asleep)
}

// wake is called after poll(2), which saw revents of the bell.
func (b *bell) wake(revents int16) {
	b.state.CompareAndSwap(asleep, awake)
	if revents != 0 {
		var rings [8]byte
		_, _ = syscall.Read(b.fd, rings[:])
	}
}

// rang reports whether the bell has rung since the last call.
func (b *bell) rang() bool {
	return b.state.Load() == rung && b.state.CompareAndSwap(rung, awake)
}

func (b *bell) close() {
	if b.fd >= 0 {
		_, _ = syscall.Close(b.fd), syscall.Close(b.to)
	}
}
