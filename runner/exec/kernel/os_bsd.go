//go:build darwin || freebsd

package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

type union struct{} // siginfo_t has no union at this place

// OpenExit returns a descriptor, a kqueue(2), that becomes readable for poll(2) once a child has
// exited. It fails with ESRCH if the child has exited already.
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

const getModes, setModes, unread = unix.TIOCGETA, unix.TIOCSETA, 0x4004667f // FIONREAD of sys/filio.h

// Pending returns how many bytes a pipe holds, given its write end. Only darwin tells, through
// fstat(2).
func Pending(fd int) int {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	return int(st.Size)
}

// action fills in the start of struct sigaction: the handler, followed by fields that are not used.
func action(sig syscall.Signal, to *[16]uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(to)))
	return errno
}

// PeerUser returns the user ID of the process at the other end of a unix socket.
func PeerUser(fd int) (uint32, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// IsProc returns false: here the links of all file systems can be read.
func IsProc(string) bool { return false }

// Remote reports whether other machines may use the file system of a directory (statfs(2)). It returns
// true if it cannot tell.
func Remote(dir string) bool {
	var st unix.Statfs_t
	return IgnoreEINTR(func() error { return unix.Statfs(dir, &st) }) != nil || st.Flags&unix.MNT_LOCAL == 0
}

// Mount returns values that identify the file system of a file. If follow is true and path is a
// symbolic link, it is the file system of the link's target. Here every mount is a different file
// system.
func Mount(path string, follow bool) [3]uint64 {
	stat := unix.Lstat
	if follow {
		stat = unix.Stat
	}
	var st unix.Stat_t
	_ = IgnoreEINTR(func() error { return stat(path, &st) })
	return [3]uint64{uint64(st.Dev)}
}

// ArgMax is the most bytes of arguments and environment that execve(2) accepts: 1 MiB on darwin and 512
// KiB on freebsd, but half as much on its small machines (sys/syslimits.h).
const ArgMax = 256 << 10

// SinceBoot returns the time of a clock that keeps running while the process and, on darwin, the
// machine is suspended.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
