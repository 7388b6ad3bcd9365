//go:build darwin || freebsd

package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

type union struct{} // there is none here

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

const getModes, setModes, unread = unix.TIOCGETA, unix.TIOCSETA, 0x4004667f // FIONREAD of sys/filio.h

// Pending returns how many bytes a pipe holds, as far as its end for writing tells: that of
// darwin does, by fstat(2).
func Pending(fd int) int {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	return int(st.Size)
}

// action fills in the start of struct sigaction, the handler, and more that is not needed.
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

// IsProc returns false: the links of all file systems can be read.
func IsProc(string) bool { return false }

// Remote reports whether other machines may use the file system of a directory, or it is not
// known (statfs(2)).
func Remote(dir string) bool {
	var st unix.Statfs_t
	return Again(func() error { return unix.Statfs(dir, &st) }) != nil || st.Flags&unix.MNT_LOCAL == 0
}

// Mount returns what identifies the file system that a file is on, or the file that a
// symbolic link leads to. Every mount is another file system.
func Mount(path string, follow bool) [3]uint64 {
	stat := unix.Lstat
	if follow {
		stat = unix.Stat
	}
	var st unix.Stat_t
	_ = Again(func() error { return stat(path, &st) })
	return [3]uint64{uint64(st.Dev)}
}

// ArgMax is how many bytes of arguments and environment execve(2) takes: 1 MiB on darwin
// and 512 KiB on freebsd, but half as much on its small machines (sys/syslimits.h).
const ArgMax = 256 << 10

// SinceBoot is the time on a clock that goes on while the process is suspended and, on
// darwin, the machine.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
