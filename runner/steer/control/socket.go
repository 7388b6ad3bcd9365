package control

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// listenAt makes a socket that listens at path. It fails if there is a file already. Until the
// socket listens, clients find it taken.
func listenAt(path string) (*os.File, error) {
	fd, err := kernel.Socket(syscall.SOCK_STREAM)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = withAddr(path, func(sa *syscall.SockaddrUnix) error { return syscall.Bind(fd, sa) })
	if err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// at calls do with the address of path, or with a short one that leads there.
func withAddr(path string, do func(*syscall.SockaddrUnix) error) error {
	var room syscall.RawSockaddrUnix
	if len(path) < len(room.Path) {
		return do(&syscall.SockaddrUnix{Name: path})
	}
	short, done, err := kernel.ShortPath(path)
	if err != nil {
		return err
	}
	defer done()
	return do(&syscall.SockaddrUnix{Name: short})
}

// connect connects to the socket at path, and removes it if nobody listens there. If
// the backlog is full, it tries again for as long as patience, and then fails with EAGAIN.
func connect(path string, patience time.Duration) (f *os.File, err error) {
	err = withAddr(path, func(sa *syscall.SockaddrUnix) (err error) {
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			f, err = dial(syscall.SOCK_STREAM, sa)
			if err == syscall.ECONNREFUSED && isTaken(sa) {
				err = syscall.EAGAIN
			}
			if err != syscall.EINTR && err != syscall.EAGAIN || time.Now().After(end) {
				return err
			}
		}
	})
	if err == nil {
		return f, nil
	}
	if err == syscall.ECONNREFUSED {
		_ = os.Remove(path)
	}
	return nil, &os.PathError{Op: "connect to", Path: path, Err: err}
}

// join returns a socket of a type that is connected to an address.
func dial(kind int, sa *syscall.SockaddrUnix) (*os.File, error) {
	fd, err := kernel.Socket(kind)
	if err != nil {
		return nil, err
	}
	if err = syscall.Connect(fd, sa); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), sa.Name), nil
}

// taken reports whether a process has the socket at an address that refuses a connection.
// Where a kernel refuses it for a full backlog, or because the process does not listen yet, a
// socket of another type still tells: it does not match a living socket, and is refused by a
// dead one.
func isTaken(sa *syscall.SockaddrUnix) bool {
	f, err := dial(syscall.SOCK_DGRAM, sa)
	_ = f.Close() // mostly nil
	return err == syscall.EPROTOTYPE
}

// accept waits for a client.
func accept(f *os.File) (c *os.File, err error) {
	raw, failed := f.SyscallConn()
	if failed == nil {
		failed = raw.Read(func(fd uintptr) bool {
			c, err = kernel.Accept(int(fd))
			return err != syscall.EAGAIN
		})
	}
	return c, errors.Join(failed, err)
}

// with calls do with the file descriptor of f.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// link is a Link over a socket.
type link struct{ *os.File }

func (l link) Gone() bool { return isClosed(l.File) }

// admit returns an error if the user at the other end of a connection may not control this run.
func checkPeer(f *os.File) error {
	return withFD(f, func(fd int) error {
		uid, err := kernel.PeerUser(fd)
		if err == nil && !allowed(uid, uint32(os.Geteuid())) {
			err = errors.New("this run belongs to another user")
		}
		return err
	})
}

// allowed reports whether a user may control a run of user own.
func allowed(uid, own uint32) bool { return uid == own || uid == 0 }

// gone reports whether the other end of a connection is closed. Half of it may be:
// a client that has nothing more to ask may still listen. For macOS, where the end of
// what comes is POLLHUP, too, the question is whether one may write.
func isClosed(f *os.File) bool {
	set := []unix.PollFd{{Events: unix.POLLOUT}}
	err := withFD(f, func(fd int) error {
		set[0].Fd = int32(fd)
		_, _ = unix.Poll(set, 0) // a signal may interrupt it: nothing is known then
		return nil
	})
	return err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
