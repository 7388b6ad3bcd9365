//go:build !linux || crew_portable

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// SyncTree makes a file durable, or a directory with everything in it. It syncs every file, because
// sync(2) need not wait until the data is written. At the end it calls File.Sync, which on darwin also
// flushes the disk's cache; fsync(2) does not do that there.
func SyncTree(path string, _ bool) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (e.IsDir() || e.Type().IsRegular()) {
			err = syncBy(path, func(f *os.File) error { return IgnoreEINTR(func() error { return unix.Fsync(int(f.Fd())) }) })
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) { // syncBy has called sync(2), or the file is gone
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return syncBy(path, (*os.File).Sync)
}

// Dying returns true, because it cannot tell whether a process has been killed.
func Dying(int) bool { return true }

// Mark marks numbers in a directory, so that other processes see them, until unmark is called or this
// process ends. Here a mark is a file with the given name in the directory, locked with flock(2). Locks
// of bytes (fcntl(2)) would end as soon as this process closes any other descriptor of the same file.
func Mark(dir, name string, _, _ int64) (unmark func(), err error) {
	path := dir + "/" + name
	for {
		fd, err := reopen(path, unix.O_CREAT|unix.O_NOFOLLOW)
		if err != nil {
			return nil, err
		}
		unmark = func() {
			_ = unix.Unlink(path)
			_ = unix.Close(fd)
		}
		var st unix.Stat_t
		if err = flock(fd, unix.LOCK_SH); err == nil {
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil:
			unmark()
			return nil, err
		case st.Nlink > 0:
			return unmark, nil
		}
		_ = unix.Close(fd) // another process removed it as stale before it was locked
	}
}

// Marked reports whether the file with the given name marks numbers. It returns true if it cannot tell.
// It removes the file of a process that has ended.
func Marked(dir, name string, _, _ int64) bool {
	path := dir + "/" + name
	fd, err := reopen(path, unix.O_NOFOLLOW)
	if err != nil {
		return err != unix.ENOENT
	}
	defer unix.Close(fd)
	const aChild = 50 * time.Millisecond // between fork and exec would have let go by then
	if !Poll(aChild, func() bool { return flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil }) {
		return true
	}
	_ = unix.Unlink(path)
	return false
}

func flock(fd, how int) error { return IgnoreEINTR(func() error { return unix.Flock(fd, how) }) }

// OwnPath returns the path of the program of this process. The file may have been replaced meanwhile.
func OwnPath() (string, error) { return os.Executable() }

// newShared creates a file of the given size for NewShared. It fills the file with zeros: storing into
// a hole of a mapped file kills the process if the disk is full.
func newShared(_ string, size int64) (fd int, err error) {
	for _, dir := range [...]string{os.TempDir(), "/tmp", "/var/tmp"} {
		var f *os.File
		if f, err = CreateUnnamed(dir); err != nil {
			continue
		}
		defer f.Close()
		if _, err = f.Write(make([]byte, size)); err == nil {
			return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
	}
	return -1, err
}
