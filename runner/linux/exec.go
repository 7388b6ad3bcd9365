package linux

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DirError says that the working directory of a new process cannot be entered.
type DirError struct{ syscall.Errno }

// Wait waits until a child has ended and reaps it. ws and ru may be nil.
func Wait(pid int, ws *syscall.WaitStatus, ru *syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, ws, 0, ru); err != syscall.EINTR {
			return
		}
	}
}

// Close closes a descriptor unless that is -1, which it is then.
func Close(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// Read reads once from a descriptor, and closes it at the end of the stream or after an
// error, also of a terminal, which ends with EIO. It returns 0 if nothing is there.
func Read(fd *int, p []byte) int {
	n, err := syscall.Read(*fd, p)
	if err == syscall.EINTR || err == syscall.EAGAIN {
		return 0
	}
	if err != nil || n == 0 {
		Close(fd)
		return 0
	}
	return n
}

// childInfo is the part of siginfo_t that waitid(2) fills in.
type childInfo struct {
	signo, _, code int32
	fields         struct {
		_           [0]uintptr // a union with pointers
		pid, _, sig int32
	}
}

// Stopped returns a child that has stopped, and the signal that stopped it. idType
// and id are as for waitid(2). It does not wait: pid is 0 if there is none. A child
// that was returned is returned again only once it has been continued and stopped
// again.
func Stopped(idType, id int) (pid int, sig syscall.Signal) {
	var info unix.Siginfo
	c := (*childInfo)(unsafe.Pointer(&info))
	if err := unix.Waitid(idType, id, &info, unix.WSTOPPED|unix.WNOHANG, nil); err != nil || c.signo == 0 {
		return 0, 0
	}
	return int(c.fields.pid), syscall.Signal(c.fields.sig)
}

// forkExec is syscall.ForkExec, but fails with a DirError if the directory is at
// fault. It ignores Foreground: ForkExec does not block SIGTTOU, so a child in the
// background would stop, and ForkExec wait for ever.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	plain, sys := *attr, *attr.Sys
	sys.Foreground = false
	plain.Sys = &sys
	pid, err = syscall.ForkExec(path, argv, &plain)
	if err != nil && attr.Dir != "" {
		var st syscall.Stat_t
		if bad, ok := syscall.Stat(attr.Dir+"/.", &st).(syscall.Errno); ok {
			return 0, DirError{bad}
		}
	}
	return pid, err
}
