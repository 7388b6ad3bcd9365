package sink

import (
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitWritable blocks until w can be written to, or its reader is gone.
func awaitWritable(w io.Writer) error {
	_, err := poll(w, unix.POLLOUT, -1)
	return err
}

// writable says whether w takes something at this moment. What is no file does.
func writable(w io.Writer) bool {
	got, err := poll(w, unix.POLLOUT, 0)
	return err != nil || got&unix.POLLOUT != 0
}

// abandoned says whether w is a pipe or socket that nobody reads any more. A
// terminal that has gone away is none: that is what SIGHUP is for.
func abandoned(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return false
	}
	got, err := poll(w, 0, 0)
	return err == nil && got&(unix.POLLERR|unix.POLLHUP) != 0
}

// poll is poll(2) of w alone.
func poll(w io.Writer, events int16, timeout int) (got int16, err error) {
	c, ok := w.(syscall.Conn)
	if !ok {
		return 0, syscall.EAGAIN
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var polled error
	err = rc.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		for {
			if _, polled = unix.Poll(fds, timeout); polled != unix.EINTR {
				break
			}
		}
		got = fds[0].Revents
	})
	if err != nil {
		return 0, err
	}
	return got, polled
}
