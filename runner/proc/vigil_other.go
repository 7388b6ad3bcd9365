//go:build !linux || crew_portable

package proc

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
)

// vigil is how the guardian learns that crew is gone, from the end of a pipe into which crew
// writes a byte when the lease changes, and that the lease has run out, from memory that both
// share. The pipe ends only when a task that is just being started has been executed.
// Such a task is not listed, but known by its environment: it survives if it has changed that by
// then, or if the system hides it.
type vigil struct {
	r, w int // the ends of the pipe; 0 before begin
	set  bool
	next lease  // what begin shows
	show *lease // in memory that both share; nil before begin
}

// lease is when a lease ends, in nanoseconds by the wall clock and by CLOCK_MONOTONIC,
// whichever comes first: either may stand still or be set back while the machine is
// suspended. With 0 for wall it never ends.
type lease struct{ wall, mono atomic.Int64 }

// vigilSize is how much memory, shared with the guardian, is the vigil's own: for the lease.
const vigilSize = int(unsafe.Sizeof(lease{}))

// begin returns the descriptor that the guardian needs.
func (v *vigil) begin(own []byte) (fd int, err error) {
	var ends [2]int
	if err := kernel.Pipe(&ends); err != nil {
		return 0, err
	}
	v.r, v.w = ends[0], ends[1]
	v.show = (*lease)(unsafe.Pointer(&own[0]))
	v.show.mono.Store(v.next.mono.Load())
	v.show.wall.Store(v.next.wall.Load())
	return v.r, syscall.SetNonblock(v.w, true)
}

// leased reports whether a lease has been set.
func (v *vigil) leased() bool { return v.set }

// expire sets the end of the lease; zero is never. The first one must come before begin.
func (v *vigil) expire(at time.Time) error {
	v.set = true
	to := v.show
	if to == nil {
		to = &v.next
	}
	if at.IsZero() {
		to.wall.Store(0)
	} else {
		// The clock is read first: this process may be stopped at any moment, also here.
		mono, err := monotonic()
		if err != nil {
			return err
		}
		to.mono.Store(mono + int64(time.Until(at)))
		to.wall.Store(at.UnixNano())
	}
	if v.show != nil {
		_, _ = syscall.Write(v.w, []byte{0}) // a pipe that is full wakes the guardian, too
	}
	return nil
}

func monotonic() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano(), err
}

// left returns how long the lease still lasts, in milliseconds for poll(2).
func (l *lease) left() int {
	const look = int64(guardLook) // the wall clock may be set
	wall := l.wall.Load()
	if wall == 0 {
		return int(look / int64(time.Millisecond))
	}
	mono, _ := monotonic()
	left := min(wall-time.Now().UnixNano(), l.mono.Load()-mono)
	return int(min(max(left, 0)+int64(time.Millisecond)-1, look) / int64(time.Millisecond))
}

// end closes what begin has opened.
func (v *vigil) end() {
	if v.show != nil {
		_, _ = syscall.Close(v.w), syscall.Close(v.r)
	}
}

// keepVigil returns when the process crew, which writes to the pipe, has ended. Until then it calls
// expired over and over while the lease has run out, and look now and then.
func keepVigil(_, pipe int, own []byte, expired, look func()) {
	lease := (*lease)(unsafe.Pointer(&own[0]))
	for {
		timeout := lease.left()
		if timeout == 0 {
			expired()
		}
		look()
		set := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
		if n, _ := unix.Poll(set, timeout); n > 0 {
			var woken [64]byte
			if n, err := syscall.Read(pipe, woken[:]); n == 0 || err != nil && err != syscall.EINTR {
				return
			}
		}
	}
}
