//go:build darwin || freebsd

package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenExit returns a descriptor that poll(2) finds readable once a child has exited: a
// kqueue(2). It fails if the child has exited already, with ESRCH.
func OpenExit(pid int) (fd int, err error) {
	if fd, err = unix.Kqueue(); err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	exit := []unix.Kevent_t{{Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD, Fflags: unix.NOTE_EXIT}}
	unix.SetKevent(&exit[0], pid, unix.EVFILT_PROC, unix.EV_ADD)
	if _, err = unix.Kevent(fd, exit, nil, nil); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Niceness returns that of this process.
func Niceness() (int, error) { return syscall.Getpriority(syscall.PRIO_PROCESS, 0) }

const getModes, setModes, unread = unix.TIOCGETA, unix.TIOCSETA, 0x4004667f // FIONREAD of sys/filio.h

// action fills in the start of struct sigaction, the handler, and more that is not needed.
func action(sig syscall.Signal, to *[16]uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(to)))
	return errno
}
