//go:build !linux || crew_portable

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SyncTree makes a file durable, or a directory with all that is in it: sync(2) need not wait
// until all is written. In the end the cache of the disk is emptied, which fsync(2) of darwin
// does not do.
func SyncTree(path string, _ bool) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (e.IsDir() || e.Type().IsRegular()) {
			err = syncBy(path, func(f *os.File) error { return Again(func() error { return unix.Fsync(int(f.Fd())) }) })
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) { // syncBy has seen to it; or it was removed
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return syncBy(path, (*os.File).Sync)
}

// Dying reports whether a process has been killed but may still exist, or it is not known.
func Dying(int) bool { return true }

// Mark marks numbers in a directory, for others to see, until unmark is called or this process
// ends. Here that is a file in the directory, with the name, that is locked (flock(2)): locks of
// bytes (fcntl(2)) would end as soon as this process closes any other descriptor of the same
// file.
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
		_ = unix.Close(fd) // before it was locked, others have taken it for an old one
	}
}

// Marked reports whether numbers are marked by the file with the name, or it is not known. It
// removes the file of a process that has ended.
func Marked(dir, name string, _, _ int64) bool {
	path := dir + "/" + name
	fd, err := reopen(path, unix.O_NOFOLLOW)
	if err != nil {
		return err != unix.ENOENT
	}
	defer unix.Close(fd)
	for tries := 10; flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil; tries-- {
		if time.Sleep(5 * time.Millisecond); tries == 0 { // not by a child that has yet to execute, either
			return true
		}
	}
	_ = unix.Unlink(path)
	return false
}

func flock(fd, how int) error { return Again(func() error { return unix.Flock(fd, how) }) }

// OwnPath returns the path of this program. Its file may have been replaced meanwhile.
func OwnPath() (string, error) { return os.Executable() }

// newShared makes a file of a size for NewShared. It is written, as a full disk would kill the
// process that stores something in a hole.
func newShared(_ string, size int64) (fd int, err error) {
	for _, dir := range [...]string{os.TempDir(), "/tmp", "/var/tmp"} {
		var f *os.File
		if f, err = Unnamed(dir); err != nil {
			continue
		}
		defer f.Close()
		if _, err = f.Write(make([]byte, size)); err == nil {
			return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
	}
	return -1, err
}

// Socket makes a unix(7) socket of a type that programs do not inherit. No call on it waits if
// that is SOCK_STREAM.
func Socket(kind int) (fd int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if fd, err = syscall.Socket(syscall.AF_UNIX, kind, 0); err == nil {
		syscall.CloseOnExec(fd)
		_ = syscall.SetNonblock(fd, kind == syscall.SOCK_STREAM)
	}
	return fd, err
}

// Accept takes a client from a socket that listens and does not block.
func Accept(listener int) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, _, err := syscall.Accept(listener)
	for err == syscall.ECONNABORTED {
		fd, _, err = syscall.Accept(listener)
	}
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "client"), nil
}
