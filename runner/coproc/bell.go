package coproc

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// clock is the run's clock: it stands still from stop to resume.
type clock struct {
	base    time.Time
	stopped atomic.Int64 // when it stopped; 0 while it runs
	lost    atomic.Int64 // for how long it has stood still
}

// now returns what the clock shows, and the time.
func (c *clock) now() (run time.Duration, at time.Time) {
	d := time.Since(c.base) // half the cost of time.Now
	at = c.base.Add(d)
	if s := c.stopped.Load(); s != 0 {
		d = time.Duration(s)
	}
	return d - time.Duration(c.lost.Load()), at
}

func (c *clock) stop() { c.stopped.CompareAndSwap(0, max(int64(time.Since(c.base)), 1)) }

func (c *clock) resume() {
	if s := c.stopped.Load(); s != 0 {
		c.lost.Add(int64(time.Since(c.base)) - s)
		c.stopped.Store(0)
	}
}

// bell wakes a lane that sleeps in poll(2). Ringing costs a system call only then.
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

// ring wakes the lane, or keeps it from sleeping.
func (b *bell) ring() {
	if b.state.Swap(rung) == asleep && b.fd >= 0 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(b.fd, one[:])
	}
}

// sleep is called before poll(2). It returns false if the bell has rung since the last
// rang. deaf means that the lane must look at the bell now and then.
func (b *bell) sleep() (ok, deaf bool) {
	if b.fd < 0 {
		if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
			b.fd = fd
		}
	}
	return b.state.CompareAndSwap(awake, asleep), b.fd < 0
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
