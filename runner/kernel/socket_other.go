//go:build !linux || crew_portable

package kernel

import (
	"os"
	"path/filepath"
)

// ShortPath returns a path to the same file that is short enough for the address of a
// socket, until done is called: by way of a symbolic link in a directory that only this
// user can enter.
func ShortPath(path string) (short string, done func(), err error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	tmp, err := os.MkdirTemp("/tmp", "crew-socket-")
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(tmp, "d")
	done = func() {
		_ = os.Remove(link)
		_ = os.Remove(tmp)
	}
	if err = os.Symlink(dir, link); err != nil {
		done()
		return "", nil, err
	}
	return filepath.Join(link, filepath.Base(path)), done, nil
}
