package target

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// remove removes what has a name in the directory, if anything has. A directory stays if
// something is mounted in it: tasks that build a root file system mount /dev there, and a
// killed one leaves it mounted.
func (d *dir) remove(name string) {
	err := again(func() error { return unix.Unlinkat(d.fd, name, 0) })
	if err != unix.EISDIR && err != unix.EPERM {
		return
	}
	path := d.path + name
	if d.mounted(path, false) || os.RemoveAll(path) == nil {
		return
	}
	// It may hold directories that only their owner's right to make them writable opens.
	if !d.mounted(path, true) {
		_ = os.RemoveAll(path)
	}
}

// mounted reports whether something is mounted in a tree below the directory. If open is
// set, it makes the directories of the tree writable.
func (d *dir) mounted(path string, open bool) (found bool) {
	home := mount(d.fd, "", unix.AT_EMPTY_PATH)
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, _ error) error {
		switch {
		case e == nil || !e.IsDir():
		case mount(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != home:
			found = true
			return fs.SkipAll
		case open:
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return found
}

// mount returns what identifies the mount that a file is on. Before Linux 5.8, that is the
// file system.
func mount(dir int, path string, flags int) [3]uint64 {
	var st unix.Statx_t
	_ = again(func() error { return unix.Statx(dir, path, flags, unix.STATX_MNT_ID, &st) })
	return [3]uint64{st.Mnt_id, uint64(st.Dev_major), uint64(st.Dev_minor)}
}
