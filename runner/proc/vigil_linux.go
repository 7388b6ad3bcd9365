//go:build !crew_portable

package proc

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// vigil is how the guardian learns that crew is gone, from a pidfd, and that the lease has
// run out, from a timer. The guardian costs a run one clone that shares crew's memory; it
// execs only if the run lasts a few milliseconds, and then beside crew.
type vigil struct {
	timer int // descriptor; 0 without a lease
}

// vigilSize is how much memory, shared with the guardian, is the vigil's own.
const vigilSize = 0

// begin returns the descriptor that the guardian needs, or 0.
func (v *vigil) begin([]byte) (fd int, err error) { return v.timer, nil }

// leased reports whether a lease has been set.
func (v *vigil) leased() bool { return v.timer != 0 }

// expire sets the end of the lease; zero is never. The first one must come before begin.
func (v *vigil) expire(at time.Time) (err error) {
	if v.timer == 0 {
		if v.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC); err != nil {
			return err
		}
	}
	var spec unix.ItimerSpec
	if !at.IsZero() {
		// This process may be stopped, and the machine suspended, at any moment, also
		// here. The clock that counts both is read first, and the time left afterwards:
		// by the wall clock, too, since the other one stands still during suspension.
		var now unix.Timespec
		if err = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			return err
		}
		left := min(time.Until(at), time.Until(at.Round(0)))
		spec.Value = unix.NsecToTimespec(max(now.Nano()+int64(left), 1))
	}
	return unix.TimerfdSettime(v.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// end closes what begin and expire have opened.
func (v *vigil) end() {
	if v.timer != 0 {
		_ = syscall.Close(v.timer)
	}
}

// keepVigil returns when the process crew, the parent of this one, has ended. Until then it
// calls expired over and over while the lease has run out, and look now and then.
func keepVigil(crew, timer int, _ []byte, expired, look func()) {
	pidfd, err := unix.PidfdOpen(crew, 0)
	timeout := int(guardLook / time.Millisecond)
	if err != nil {
		pidfd, timeout = -1, 10 // poll(2) ignores the descriptor and sleeps
	}
	for os.Getppid() == crew {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(cmp.Or(timer, -1)), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, timeout)
		if fds[1].Revents&unix.POLLIN != 0 {
			expired()
		}
		look()
	}
}
