package coproc

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bell wakes a loop that sleeps in poll(2). Ringing costs a system call only then.
type bell struct {
	state atomic.Int32
	fd    int // an eventfd; -1 before it is first needed, and if there is none to be had
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
		more := [8]byte{1} // any number
		_, _ = unix.Write(b.fd, more[:])
	}
}

// sleep is called before poll(2). It returns false if the bell has rung since the last
// call of rang.
func (b *bell) sleep() bool {
	if b.fd < 0 {
		if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
			b.fd = fd
		}
	}
	return b.state.CompareAndSwap(awake, asleep)
}

// wake is called after poll(2), which saw revents of the bell.
func (b *bell) wake(revents int16) {
	b.state.CompareAndSwap(asleep, awake)
	if revents != 0 {
		var count [8]byte
		_, _ = unix.Read(b.fd, count[:])
	}
}

// rang reports whether the bell has rung since the last call.
func (b *bell) rang() bool {
	return b.state.Load() == rung && b.state.CompareAndSwap(rung, awake)
}

func (b *bell) close() {
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
	}
}
