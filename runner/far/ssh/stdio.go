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

// Stdio returns the worker's end of its connection: standard input and output. It moves them to other
// descriptors and redirects 0 to /dev/null and 1 to stderr, so that nothing else reads from or writes
// to the connection.
func Stdio() (net.Conn, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, err := replaceFD(0, int(null.Fd()))
	if err != nil {
		return nil, err
	}
	out, err := replaceFD(1, 2)
	return stdioConn{in, out}, err
}

// replaceFD moves the open file of fd to a new descriptor and makes fd a duplicate of like. After an
// error the state of both descriptors is undefined.
func replaceFD(fd, like int) (*os.File, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup2(like, fd)
	}
	if err == nil {
		err = unix.SetNonblock(moved, true) // deadlines need this
	}
	return os.NewFile(uintptr(moved), "standard input or output"), os.NewSyscallError("dup", err)
}

// stdioConn is a connection over standard input and output.
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

// maxLine is how many bytes of a line are shown at most.
const maxLine = 500

// stderrLines is a Writer for the stderr of ssh and a worker. It remembers the last line that is not
// blank, which may be the reason for a failure, and shows each line while live is set. Only one
// goroutine may call Write.
type stderrLines struct {
	show func(string)
	live atomic.Bool
	last atomic.Value // a string
	part []byte       // the start of a line without its end
}

// LineWriter returns a writer for a process's stderr that calls show with each line.
func LineWriter(show func(string)) io.Writer {
	s := &stderrLines{show: show}
	s.live.Store(true)
	return s
}

func (s *stderrLines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		s.part = append(s.part, part[:min(len(part), maxLine-len(s.part))]...)
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
