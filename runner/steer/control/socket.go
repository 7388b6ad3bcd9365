package control

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// socket is one end of a connection: a *net.UnixConn, or an *os.File of pair.
type socket interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// listenAt makes a socket that listens at path. It fails if the file exists. Between bind and listen, clients
// find the socket taken.
func listenAt(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return nil, &os.PathError{Op: "listen", Path: path, Err: kernel.Errno(err)}
	}
	l.SetUnlinkOnClose(false) // Server.Close does it earlier
	return l, nil
}

// connect connects to the socket at path, and removes the socket if its process is dead. If the backlog is
// full, it tries again until patience has passed, and then fails with EAGAIN.
func connect(path string, patience time.Duration) (c *net.UnixConn, err error) {
	at := &net.UnixAddr{Name: path}
	kernel.Poll(patience, func() bool {
		c, err = net.DialUnix("unix", nil, at)
		if err = kernel.Errno(err); err == syscall.ECONNREFUSED && isTaken(at) {
			err = syscall.EAGAIN
		}
		return err != syscall.EAGAIN
	})
	if err == nil {
		return c, nil
	}
	if err == syscall.ECONNREFUSED {
		_ = os.Remove(path)
	}
	return nil, &os.PathError{Op: "connect to", Path: path, Err: err}
}

// isTaken reports whether a process has the socket at an address that refuses connections. A kernel may refuse
// them because the backlog is full or the process does not listen yet. A socket of another type tells the
// cases apart: it gets EPROTOTYPE from a live socket, and is refused by a dead one.
func isTaken(at *net.UnixAddr) bool {
	_, err := net.DialUnix("unixgram", nil, at)
	return errors.Is(err, syscall.EPROTOTYPE)
}

// withFD calls do with the file descriptor of c.
func withFD(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// link is a Link over a socket.
type link struct{ socket }

// Gone reports whether the other end of a connection is completely closed. A client that has sent its
// request may close its sending half and still read. macOS reports that as POLLHUP as well, so Gone polls for
// writing.
func (l link) Gone() bool {
	set := []unix.PollFd{{Events: unix.POLLOUT}}
	err := withFD(l, func(fd int) error {
		set[0].Fd = int32(fd)
		_, _ = unix.Poll(set, 0) // if a signal interrupts it, Gone returns false
		return nil
	})
	return err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// checkPeer returns an error if the user at the other end of a connection may not control this run.
func checkPeer(c syscall.Conn) error {
	return withFD(c, func(fd int) error {
		uid, err := kernel.PeerUser(fd)
		if err == nil && !allowed(uid, uint32(os.Geteuid())) {
			err = errors.New("this run belongs to another user")
		}
		return err
	})
}

// allowed reports whether user uid may control a run of user own.
func allowed(uid, own uint32) bool { return uid == own || uid == 0 }
