//go:build !linux || crew_portable

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenNoLinks fails with ENOSYS: the kernel cannot tell whether there is a symbolic link in
// a path.
func OpenNoLinks(string, int, uint32) (fd int, err error) { return -1, unix.ENOSYS }

// OpenUnnamed fails: every file has a name first.
func OpenUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Allocate fails with errors.ErrUnsupported.
func Allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// SyncsAll says that SyncEach has to be told what has changed.
const SyncsAll = false

// SyncEach makes directories below root durable with all that is in them, and the way to
// them. sync(2) need not wait until all is written.
func SyncEach(root string, dirs []string) error {
	synced := map[string]bool{root: true}
	for _, dir := range dirs {
		if err := fsyncTree(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for up := filepath.Dir(dir); strings.HasPrefix(up, root) && !synced[up]; up = filepath.Dir(up) {
			if err := fsync(up, false); err != nil {
				return err
			}
			synced[up] = true
		}
	}
	for up := root; up != filepath.Dir(up); {
		up = filepath.Dir(up)
		_ = fsync(up, false) // it may be another user's
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
