package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookFirst and lookMost are how long to pause between two looks.
	lookFirst = time.Millisecond
	lookMost  = 16 * time.Millisecond
)

// poll is poll(2), which blocks a thread, or where threads are scarce looks now
// and then.
func (l *Local) poll(set []unix.PollFd, timeout int) (int, error) {
	if !l.shortage.threads.Load() {
		return unix.Poll(set, timeout)
	}
	end := time.Now().Add(time.Duration(timeout) * time.Millisecond)
	for pause := lookFirst; ; pause = min(2*pause, lookMost) {
		n, err := unix.Poll(set, 0)
		if n != 0 || err != nil || timeout >= 0 && !time.Now().Before(end) {
			return n, err
		}
		time.Sleep(pause)
	}
}

// waitExited blocks until the process has exited and leaves it to be reaped.
// Where threads are scarce it holds none meanwhile.
func (l *Local) waitExited(pid int) {
	if l.shortage.threads.Load() {
		for pause := lookFirst; !exitedYet(pid); pause = min(2*pause, lookMost) {
			time.Sleep(pause)
		}
	}
	waitExited(pid)
}

// waitExited blocks until the process has exited and leaves it to be reaped.
func waitExited(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}

// exitedYet says whether the process has exited, without reaping it.
func exitedYet(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// openPidfd returns a descriptor that becomes readable when the process exits,
// or -1 where the kernel has none.
func openPidfd(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	return fd
}
