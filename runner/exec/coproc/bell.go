package coproc

import (
	"sync/atomic"
	"syscall"

	"crew/runner/exec/kernel"
)

// bell wakes a loop that sleeps in poll(2). Ringing costs a system call only if the loop sleeps.
type bell struct {
	state atomic.Int32
	fd    int // read end of a pipe; -1 before it is first needed, and if no pipe can be opened
	to    int // write end
}

// The states of a bell.
const (
	awake int32 = iota
	asleep
	rung
)

// ring wakes the loop, or prevents the next sleep.
func (b *bell) ring() {
	if b.state.Swap(rung) == asleep && b.fd >= 0 {
		_, _ = syscall.Write(b.to, []byte{0})
	}
}

// sleep must be called before poll(2). It returns false if the bell has rung since the last
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

// wake must be called after poll(2). revents are the events of the bell's descriptor.
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
