package target

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
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
	home := kernel.Mount(filepath.Dir(path), true)
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, _ error) error {
		switch {
		case e == nil || !e.IsDir():
		case kernel.Mount(path, false) != home:
			found = true
			return fs.SkipAll
		case open:
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return found
}
