//go:build !crew_portable

package kernel

import (
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ShortPath returns a path to the same file that is short enough for the address of a
// socket, until done is called: by way of its open directory.
func ShortPath(path string) (short string, done func(), err error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(dir), filepath.Base(path)), func() { _ = unix.Close(dir) }, nil
}
