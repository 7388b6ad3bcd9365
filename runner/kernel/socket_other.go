//go:build !linux || crew_portable

package kernel

import (
	"os"
	"path/filepath"
	"syscall"
)

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
