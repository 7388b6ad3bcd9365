package target

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove removes what has a name, if anything has. A directory stays if
// something is mounted in it: tasks that build a root file system mount /dev there, and a
// killed one leaves it mounted.
func Remove(path string) {
	err := again(func() error { return unix.Unlink(path) })
	if err != unix.EISDIR && err != unix.EPERM || holdsMount(path, false) || os.RemoveAll(path) == nil {
		return
	}
	// Its owner may have to make directories in it writable first.
	if !holdsMount(path, true) {
		_ = os.RemoveAll(path)
	}
}

// holdsMount reports whether something is mounted in a directory or at its name. If open is
// set, it makes the directories in it writable.
func holdsMount(path string, open bool) (found bool) {
	home := mountOf(filepath.Dir(path), 0)
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, _ error) error {
		switch {
		case e == nil || !e.IsDir():
		case mountOf(path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != home:
			found = true
			return fs.SkipAll
		case open:
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return found
}

// mountOf returns what identifies the mount that a file is on. Before Linux 5.8, that is the
// file system.
func mountOf(path string, flags int) [3]uint64 {
	var st unix.Statx_t
	_ = again(func() error { return unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID, &st) })
	return [3]uint64{st.Mnt_id, uint64(st.Dev_major), uint64(st.Dev_minor)}
}
