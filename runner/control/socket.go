package control

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// unfinished begins the name of a socket that does not listen yet. A client would
	// take it for one that a dead run has left.
	unfinished = "new."
	// backlog is how many clients may wait to be accepted.
	backlog = 128
)

// listenAt makes a socket that listens at path. It fails if one listens there already.
func listenAt(path string) (*os.File, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, os.ErrExist
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	first := filepath.Join(filepath.Dir(path), unfinished+filepath.Base(path))
	_ = os.Remove(first)
	err = at(first, func(sa *unix.SockaddrUnix) error { return unix.Bind(fd, sa) })
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		_ = os.Remove(first)
		_ = unix.Close(fd)
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// at calls do with the address of path. The kernel limits an address to 107 bytes, so
// that of a longer path goes by way of its open directory.
func at(path string, do func(*unix.SockaddrUnix) error) error {
	var room unix.RawSockaddrUnix
	if len(path) < len(room.Path) {
		return do(&unix.SockaddrUnix{Name: path})
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return do(&unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path)})
}

// connect connects to the socket at path, and removes it if nobody listens there. If
// the backlog is full, it tries again for as long as patience.
func connect(path string, patience time.Duration) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = at(path, func(sa *unix.SockaddrUnix) error {
		end := time.Now().Add(patience)
		for {
			err := unix.Connect(fd, sa)
			if err != unix.EINTR && err != unix.EAGAIN || time.Now().After(end) {
				return err
			}
			time.Sleep(time.Millisecond) // the backlog is full
		}
	})
	if err == nil {
		return os.NewFile(uintptr(fd), path), nil
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.ECONNREFUSED) {
		_ = os.Remove(path)
	}
	return nil, &os.PathError{Op: "connect to", Path: path, Err: err}
}

// accept waits for a client.
func accept(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Read(func(on uintptr) bool {
		for {
			fd, _, failed = unix.Accept4(int(on), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if failed != unix.EINTR && failed != unix.ECONNABORTED {
				return failed != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "client"), nil
}

// with calls do with the file descriptor of f.
func with(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// peer returns the user at the other end of a connection.
func peer(f *os.File) (uid uint32, err error) {
	err = with(f, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = cred.Uid
		}
		return err
	})
	return uid, err
}

// allowed reports whether a user may control a run of user own.
func allowed(uid, own uint32) bool { return uid == own || uid == 0 }

// gone reports whether the other end of a connection is closed. Half of it may be:
// a client that has nothing more to ask may still listen.
func gone(f *os.File) bool {
	set := []unix.PollFd{{}}
	err := with(f, func(fd int) error {
		set[0].Fd = int32(fd)
		_, _ = unix.Poll(set, 0) // a signal may interrupt it: nothing is known then
		return nil
	})
	return err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
