package ssh

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// Stdio returns the worker's end of its connection: standard input and output, which it
// moves away, so that nothing else reads or writes there.
func Stdio() (net.Conn, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
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

// moveAway returns the file of a descriptor, which is made the same as another one.
func moveAway(fd, like int) (*os.File, error) {
	moved, err := syscall.Dup(fd)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(moved)
	// Only what does not block has deadlines.
	if err = syscall.SetNonblock(moved, true); err == nil {
		err = unix.Dup2(like, fd)
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("dup", err), syscall.Close(moved))
	}
	return os.NewFile(uintptr(moved), "standard input or output"), nil
}

// stdioConn is standard input and output as a connection.
type stdioConn struct{ in, out *os.File }

func (c stdioConn) Read(p []byte) (int, error)         { return c.in.Read(p) }
func (c stdioConn) Write(p []byte) (int, error)        { return c.out.Write(p) }
func (c stdioConn) Close() error                       { return errors.Join(c.in.Close(), c.out.Close()) }
func (c stdioConn) LocalAddr() net.Addr                { return &net.UnixAddr{Net: "stdio", Name: "stdio:"} }
func (c stdioConn) RemoteAddr() net.Addr               { return c.LocalAddr() }
func (c stdioConn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
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
