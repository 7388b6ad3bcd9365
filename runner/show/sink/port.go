package sink

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
)

// writeFully writes all of b to w or fails: it goes on after a short write, and waits
// while w would block. Another program that shares crew's stdout can make it
// non-blocking at any moment.
func writeFully(w io.Writer, b []byte) (done int, err error) {
	for done < len(b) {
		n, err := w.Write(b[done:])
		done += n
		switch {
		case errors.Is(err, syscall.EAGAIN):
			if _, err := poll(w, unix.POLLOUT, -1); err != nil {
				return done, err
			}
		case err != nil:
			return done, err
		case n == 0:
			return done, io.ErrNoProgress
		}
	}
	return done, nil
}

// port is stdout or stderr for the output of tasks. It is used only under the
// screen's lock.
type port struct {
	w      io.Writer
	stderr bool
	err    error       // the first error; on stderr, one that lost something somebody might have read
	unread atomic.Bool // something could not be written to stdout, as nobody reads it
}

// Write writes all of b. After an error of stdout it writes nothing more. An
// error of stderr is no reason to stop, so Write hides it.
func (p *port) Write(b []byte) (int, error) {
	if p.err != nil && !p.stderr {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	if err == nil {
		return n, nil
	}
	err = task.WithoutPath(err)
	if p.stderr {
		unread := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EBADF) || errors.Is(err, fs.ErrClosed)
		if p.err == nil && !unread {
			p.err = fmt.Errorf("write stderr: %w", err)
		}
		return len(b), nil
	}
	p.unread.Store(errors.Is(err, syscall.EPIPE))
	p.err = fmt.Errorf("write stdout: %w", err)
	return n, p.err
}

// abandoned reports whether w is a pipe or socket without a reader. It is false
// of a terminal that has gone away, which SIGHUP tells of.
func abandoned(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return false
	}
	got, err := poll(w, unix.POLLOUT, 0) // Darwin looks at nothing unless asked for something
	return err == nil && got&(unix.POLLERR|unix.POLLHUP) != 0
}

// poll calls poll(2) for w alone. It returns EAGAIN if w has no descriptor.
func poll(w io.Writer, events int16, timeout int) (got int16, err error) {
	c, ok := w.(syscall.Conn)
	if !ok {
		return 0, syscall.EAGAIN
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var polled error = unix.EINTR
	err = rc.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		for polled == unix.EINTR {
			_, polled = unix.Poll(fds, timeout)
		}
		got = fds[0].Revents
	})
	return got, cmp.Or(err, polled)
}
