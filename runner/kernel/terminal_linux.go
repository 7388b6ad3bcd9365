//go:build !crew_portable

package kernel

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// PassForeground calls do, which puts a process group into the foreground of a terminal. It
// blocks SIGTTOU, which would stop this process, since only one in the foreground may do
// that.
func PassForeground(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (uint(syscall.SIGTTOU) - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return do()
}

// PTYKeeps tells that a pseudo-terminal keeps what was written to it until that is read, even
// if all that could write have closed it.
const PTYKeeps = true

// OpenPTY opens a pseudo-terminal. theirs is for writing only. On an error, what is open is
// not -1.
func OpenPTY() (ours, theirs int, err error) {
	theirs = -1
	if ours, err = syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0); err != nil {
		return -1, -1, err
	}
	if err = unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0); err != nil {
		return ours, -1, err
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(ours), unix.TIOCGPTPEER, syscall.O_WRONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if errno != 0 {
		return ours, -1, errno
	}
	return ours, int(fd), nil
}
