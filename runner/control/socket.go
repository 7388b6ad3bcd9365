package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
)

// unfinished begins the name of a socket that does not listen yet. A client would
// take it for one that a dead run has left.
const unfinished = "new."

// listenAt makes a socket that listens at path. It fails if one listens there already.
func listenAt(path string) (*net.UnixListener, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, os.ErrExist
	}
	first := filepath.Join(filepath.Dir(path), unfinished+filepath.Base(path))
	_ = os.Remove(first)
	var l *net.UnixListener
	err := at(first, func(short string) (err error) {
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"}); err == nil {
			l.SetUnlinkOnClose(false) // it is renamed
		}
		return err
	})
	if err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		_ = os.Remove(first)
		if l != nil {
			_ = l.Close()
		}
		return nil, socketError("listen", path, err)
	}
	return l, nil
}

// at calls do with the address of path, or with a short one that leads there.
func at(path string, do func(address string) error) error {
	var room syscall.RawSockaddrUnix
	if len(path) < len(room.Path) {
		return do(path)
	}
	short, done, err := kernel.ShortPath(path)
	if err != nil {
		return err
	}
	defer done()
	return do(short)
}

// socketError returns err with the path of a socket instead of the address.
func socketError(op, path string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// connect connects to the socket at path, and removes it if nobody listens there. If
// the backlog is full, it tries again for as long as patience, and then fails with EAGAIN.
func connect(path string, patience time.Duration) (c *net.UnixConn, err error) {
	err = at(path, func(address string) (err error) {
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
			if errors.Is(err, syscall.ECONNREFUSED) && taken(address) {
				err = syscall.EAGAIN
			}
			if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
				return err
			}
		}
	})
	if err == nil {
		return c, nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
	return nil, socketError("connect to", path, err)
}

// taken reports whether a process has the socket at an address that refuses a connection.
// Where a full backlog makes a kernel refuse it, a socket of another type still tells: it
// does not match a living socket, and is refused by a dead one.
func taken(address string) bool {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.EPROTOTYPE)
}

// with calls do with the file descriptor of f.
func with(f syscall.Conn, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// peer returns the user at the other end of a connection.
func peer(f syscall.Conn) (uid uint32, err error) {
	err = with(f, func(fd int) (err error) {
		uid, err = kernel.PeerUser(fd)
		return err
	})
	return uid, err
}

// allowed reports whether a user may control a run of user own.
func allowed(uid, own uint32) bool { return uid == own || uid == 0 }

// gone reports whether the other end of a connection is closed. Half of it may be:
// a client that has nothing more to ask may still listen. For macOS, where the end of
// what comes is POLLHUP, too, the question is whether one may write.
func gone(f syscall.Conn) bool {
	set := []unix.PollFd{{Events: unix.POLLOUT}}
	err := with(f, func(fd int) error {
		set[0].Fd = int32(fd)
		_, _ = unix.Poll(set, 0) // a signal may interrupt it: nothing is known then
		return nil
	})
	return err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
