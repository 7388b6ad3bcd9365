package ssh

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
)

// Stdio returns the worker's end of its connection: standard input and output, which it
// moves away, so that nothing else reads or writes there.
func Stdio() (net.Conn, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, err := moveAway(0, int(null.Fd()))
	if err != nil {
		return nil, err
	}
	out, err := moveAway(1, 2)
	return stdioConn{in, out}, err
}

// moveAway returns the file of a descriptor, which is made the same as another one. After an error
// the process has no use for either.
func moveAway(fd, like int) (*os.File, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup2(like, fd)
	}
	if err == nil {
		err = unix.SetNonblock(moved, true) // or else it has no deadlines
	}
	return os.NewFile(uintptr(moved), "standard input or output"), os.NewSyscallError("dup", err)
}

// stdioConn is standard input and output as a connection.
type stdioConn struct {
	*os.File // standard input
	out      *os.File
}

func (c stdioConn) Write(p []byte) (int, error)        { return c.out.Write(p) }
func (c stdioConn) Close() error                       { return errors.Join(c.File.Close(), c.out.Close()) }
func (c stdioConn) LocalAddr() net.Addr                { return &net.UnixAddr{Net: "stdio", Name: "stdio:"} }
func (c stdioConn) RemoteAddr() net.Addr               { return c.LocalAddr() }
func (c stdioConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c stdioConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// mostLine limits the bytes of a line that are shown.
const mostLine = 500

// stderrLines takes what ssh and a worker write to stderr. It keeps the last line that is
// not blank, which may be the reason for a failure, and shows lines while live. Only one
// goroutine may call Write.
type stderrLines struct {
	show func(string)
	live atomic.Bool
	last atomic.Value // a string
	part []byte       // of a line that has not ended
}

// Lines returns what calls show with each line that a process writes to stderr.
func Lines(show func(string)) io.Writer {
	s := &stderrLines{show: show}
	s.live.Store(true)
	return s
}

// Write takes a part of the text.
func (s *stderrLines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		s.part = append(s.part, part[:min(len(part), mostLine-len(s.part))]...)
		if part[len(part)-1] != '\n' {
			break // more of the line comes with the next call
		}
		line := strings.TrimPrefix(task.Printable(strings.TrimSpace(string(s.part))), "crew: ")
		s.part = s.part[:0]
		if line == "" {
			continue
		}
		s.last.Store(line)
		if s.live.Load() {
			s.show(line)
		}
	}
	return len(p), nil
}
