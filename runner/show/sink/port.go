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

// writeFully writes all of b as a Patient does.
func writeFully(w io.Writer, b []byte) (done int, err error) {
	for {
		n, err := w.Write(b[done:])
		if done += n; !errors.Is(err, syscall.EAGAIN) {
			return done, err
		}
		if _, err := poll(w, unix.POLLOUT, -1); err != nil {
			return done, err
		}
	}
}

// Patient is a writer that writes all of its input unless there is an error. It waits while a write would
// block, because any program that shares crew's stdout can make it non-blocking.
type Patient struct{ io.Writer }

func (p Patient) Write(b []byte) (int, error) { return writeFully(p.Writer, b) }

// port is stdout or stderr for the output of tasks. The caller of its methods must hold the
// screen's lock.
type port struct {
	w        io.Writer
	stderr   bool
	err      error       // the first error of stderr, other than that nothing reads it
	noReader atomic.Bool // a write to stdout failed because nothing reads it
}

// Write writes all of b. It hides errors on stderr, because they are no reason to stop.
func (p *port) Write(b []byte) (int, error) {
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
	p.noReader.Store(errors.Is(err, syscall.EPIPE))
	return n, fmt.Errorf("write stdout: %w", err)
}

// abandoned reports whether w is a pipe or socket without a reader. It is false for a terminal that
// was closed, which is reported by SIGHUP.
func abandoned(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return false
	}
	got, err := poll(w, unix.POLLOUT, 0) // Darwin reports nothing if no event is requested
	return err == nil && got&(unix.POLLERR|unix.POLLHUP) != 0
}

// poll calls poll(2) for w. It returns EAGAIN if w has no descriptor.
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
