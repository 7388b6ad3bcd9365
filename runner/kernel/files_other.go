//go:build !linux || crew_portable

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenNoLinks opens a file if there is no symbolic link in its path. Otherwise the error is
// ELOOP. It fails with ENOSYS if the kernel cannot tell.
func OpenNoLinks(path string, flags int, perm uint32) (fd int, err error) {
	if noLinks == 0 {
		return -1, unix.ENOSYS
	}
	return unix.Open(path, flags&^unix.O_NOFOLLOW|noLinks|unix.O_CLOEXEC, perm)
}

// TmpFile is O_TMPFILE of open(2), or nothing: then a directory cannot be opened with it.
const TmpFile = 0

// Allocate fails with errors.ErrUnsupported.
func Allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// SyncsAll says that SyncEach has to be told what has changed.
const SyncsAll = false

// SyncEach makes directories below root durable with all that is in them, and those above
// them. sync(2) need not wait until all is written.
func SyncEach(root string, dirs []string) error {
	synced := map[string]bool{}
	for _, dir := range dirs {
		err := fsyncTree(dir)
		for up := filepath.Dir(dir); err == nil && !synced[up]; up = filepath.Dir(up) {
			synced[up] = true
			if err = fsync(up, false); len(up) < len(root) { // it may not be the user's
				err = nil
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fsync(root, true)
}

// SyncTree makes a file durable, or a directory with all that is in it.
func SyncTree(path string, _ bool) error {
	if err := fsyncTree(path); err != nil {
		return err
	}
	return fsync(path, true)
}

// fsyncTree writes a file to the disk, or a directory with all that is in it.
func fsyncTree(path string) error {
	return filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission): // fsync has seen to it
			return nil
		case err != nil || !e.IsDir() && !e.Type().IsRegular():
			return err
		}
		return fsync(path, false)
	})
}

// fsync writes a file or a directory to the disk, and if full is set empties the cache of
// the disk, which fsync(2) of darwin does not.
func fsync(path string, full bool) error {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if errors.Is(err, fs.ErrPermission) { // it was made so that nobody reads it
		if f, err = os.OpenFile(path, os.O_WRONLY|flags, 0); err != nil {
			unix.Sync()
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if full {
		err = f.Sync()
	} else {
		err = again(func() error { return unix.Fsync(int(f.Fd())) })
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // its file system cannot
		return nil
	}
	return err
}

// Dying reports whether a process has been killed but may still exist, or it is not known.
func Dying(int) bool { return true }
