//go:build !crew_portable

package kernel

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// SyncTree makes a file durable, or a directory with everything in it. For a directory, one syncfs(2)
// costs less than an fsync(2) for each file.
func SyncTree(path string, dir bool) error {
	return syncBy(path, func(f *os.File) error {
		if dir {
			return unix.Syncfs(int(f.Fd()))
		}
		return f.Sync()
	})
}

// Dying reports whether a process has ended, is exiting, or has a SIGKILL pending (proc_pid_stat(5),
// proc_pid_status(5)).
func Dying(pid int) bool {
	p, ok := FindProcess(pid)
	if !ok {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, pending, _ := bytes.Cut(status, []byte("ShdPnd:\t"))
	pending, _, _ = bytes.Cut(pending, []byte("\n"))
	mask, err := strconv.ParseUint(string(pending), 16, 64)
	return p.exiting || err == nil && mask&(1<<(syscall.SIGKILL-1)) != 0
}

// Mark marks the numbers in [from, from+n) in a directory, so that other processes see them, until
// unmark is called or this process ends. On Linux a mark is a lock of an open file description
// (fcntl(2)) on bytes of the directory. On other systems it is a file, which gets the name.
func Mark(dir, _ string, from, n int64) (unmark func(), err error) {
	fd, err := reopen(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: from, Len: n})
	return func() { _ = unix.Close(fd) }, nil
}

// Marked reports whether any of the numbers in [from, from+n) is marked. It returns true if it cannot
// tell.
func Marked(dir, _ string, from, n int64) bool {
	fd, err := reopen(dir, unix.O_DIRECTORY)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: from, Len: n}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock) != nil || lock.Type != unix.F_UNLCK
}

// OwnPath returns a path to the program of this process that works even if the file has been replaced.
func OwnPath() (string, error) { return "/proc/self/exe", nil }

// newShared creates a file of the given size for NewShared.
func newShared(name string, size int64) (fd int, err error) {
	if fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC); err != nil {
		return -1, err
	}
	if err = unix.Ftruncate(fd, size); err != nil {
		Close(&fd)
	}
	return fd, err
}
