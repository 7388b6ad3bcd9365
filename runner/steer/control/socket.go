package control

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// listenAt makes a socket that listens at path. It fails if the file exists. Between bind and listen, clients
// find the socket taken.
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

// withAddr calls do with the address of path, or with a shorter path to the same file if path is too long.
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

// connect connects to the socket at path, and removes the socket if its process is dead. If the backlog is
// full, it tries again until patience has passed, and then fails with EAGAIN.
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

// dial returns a socket of type kind that is connected to an address.
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

// isTaken reports whether a process has the socket at an address that refuses connections. A kernel may refuse
// them because the backlog is full or the process does not listen yet. A socket of another type tells the
// cases apart: it gets EPROTOTYPE from a live socket, and is refused by a dead one.
func isTaken(sa *syscall.SockaddrUnix) bool {
	f, err := dial(syscall.SOCK_DGRAM, sa)
	_ = f.Close() // usually nil
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

// withFD calls do with the file descriptor of f.
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

// Gone reports whether the other end of a connection is completely closed. A client that has sent its
// request may close its sending half and still read. macOS reports that as POLLHUP as well, so Gone polls for
// writing.
func (l link) Gone() bool {
	set := []unix.PollFd{{Events: unix.POLLOUT}}
	err := withFD(l.File, func(fd int) error {
		set[0].Fd = int32(fd)
		_, _ = unix.Poll(set, 0) // if a signal interrupts it, Gone returns false
		return nil
	})
	return err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// checkPeer returns an error if the user at the other end of a connection may not control this run.
func checkPeer(f *os.File) error {
	return withFD(f, func(fd int) error {
		uid, err := kernel.PeerUser(fd)
		if err == nil && !allowed(uid, uint32(os.Geteuid())) {
			err = errors.New("this run belongs to another user")
		}
		return err
	})
}

// allowed reports whether user uid may control a run of user own.
func allowed(uid, own uint32) bool { return uid == own || uid == 0 }
