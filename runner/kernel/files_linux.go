//go:build !crew_portable

package kernel

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenNoLinks opens a file if there is no symbolic link in its path. Otherwise the error is
// ELOOP. It fails with ENOSYS or EPERM if the kernel cannot tell: if it is an old one, or in
// a sandbox that does not know openat2(2).
func OpenNoLinks(path string, flags int, perm uint32) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_LARGEFILE), Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	return unix.Openat2(unix.AT_FDCWD, path, &how)
}

// TmpFile is O_TMPFILE of open(2), or nothing: then a directory cannot be opened with it.
const TmpFile = unix.O_TMPFILE

// Allocate allocates disk space for n bytes from an offset on, without changing the file's
// length. If the system or the file system cannot, the error is errors.ErrUnsupported.
func Allocate(f *os.File, from, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, n)
}

// SyncsAll says that SyncEach does not need to be told what has changed.
const SyncsAll = true

// SyncEach makes a directory durable with all that is in it. One call (syncfs(2)) costs less
// than one for each file.
func SyncEach(root string, _ []string) error { return SyncTree(root, true) }

// SyncTree makes a file durable, or a directory with all that is in it.
func SyncTree(path string, dir bool) error {
	fd, err := reopen(path, unix.O_NOFOLLOW)
	sync := unix.Fsync
	if dir {
		sync = unix.Syncfs
	}
	if err == unix.EACCES { // it was made so that nobody reads it
		sync = unix.Syncfs
		fd, err = reopen(filepath.Dir(path), unix.O_DIRECTORY)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = again(func() error { return sync(fd) }); err == unix.EINVAL { // its file system cannot
		return nil
	}
	return err
}

// Dying reports whether a process has been killed but may still exist
// (proc_pid_stat(5), proc_pid_status(5)).
func Dying(pid int) bool {
	const exiting = 0x4 // PF_EXITING of linux/sched.h
	base := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(base + "/stat")
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 7 {
		return false
	}
	if bits, err := strconv.ParseUint(string(f[6]), 10, 64); err == nil && bits&exiting != 0 {
		return true
	}
	status, _ := os.ReadFile(base + "/status")
	_, pending, _ := bytes.Cut(status, []byte("ShdPnd:\t"))
	pending, _, _ = bytes.Cut(pending, []byte("\n"))
	mask, err := strconv.ParseUint(string(pending), 16, 64)
	return f[0][0] == 'Z' || f[0][0] == 'X' || err == nil && mask&(1<<(syscall.SIGKILL-1)) != 0
}
