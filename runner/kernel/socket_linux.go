//go:build !crew_portable

package kernel

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Socket makes a unix(7) socket of a type that programs do not inherit. No call on it waits if
// that is SOCK_STREAM.
func Socket(kind int) (fd int, err error) {
	if kind == unix.SOCK_STREAM {
		kind |= unix.SOCK_NONBLOCK
	}
	return unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
}

// Accept takes a client from a socket that listens and does not block.
func Accept(listener int) (*os.File, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "client"), nil
}

// ShortPath returns a path to the same file that is short enough for the address of a
// socket, until done is called: by way of its open directory.
func ShortPath(path string) (short string, done func(), err error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(dir), filepath.Base(path)), func() { _ = unix.Close(dir) }, nil
}
