package ssh

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stdio returns the worker's end of its connection: standard input and output, which it
// moves away, so that nothing else reads or writes there.
func Stdio() (net.Conn, error) {
	c := &stdioConn{}
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if c.in, err = moveAway(0, int(null.Fd())); err != nil {
		return nil, err
	}
	if c.out, err = moveAway(1, 2); err != nil {
		return nil, errors.Join(err, c.in.Close())
	}
	return c, nil
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

func (c *stdioConn) Read(p []byte) (int, error)         { return c.in.Read(p) }
func (c *stdioConn) Write(p []byte) (int, error)        { return c.out.Write(p) }
func (c *stdioConn) Close() error                       { return errors.Join(c.in.Close(), c.out.Close()) }
func (c *stdioConn) LocalAddr() net.Addr                { return &net.UnixAddr{Net: "stdio", Name: "stdio:"} }
func (c *stdioConn) RemoteAddr() net.Addr               { return c.LocalAddr() }
func (c *stdioConn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *stdioConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *stdioConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
