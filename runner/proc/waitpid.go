package proc

import "golang.org/x/sys/unix"

const maxrssUnit = 1024

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

// pipe makes a pipe whose ends no child inherits.
func pipe(p *[2]int) error { return unix.Pipe2(p[:], unix.O_CLOEXEC) }
