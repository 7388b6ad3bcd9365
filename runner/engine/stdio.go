package engine

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// stdioURL is the engine of a worker that --ssh has started: the server of the run,
// which it reaches through its standard input and output.
const stdioURL = "stdio:"

// lastMoment limits how long a worker whose run is gone takes to end.
const lastMoment = 2 * time.Second

// dialStdio has a connection go over standard input and output, once. When it ends, but
// for session.close, the tasks of this process are killed and it ends.
func dialStdio() nats.Option {
	return func(o *nats.Options) error {
		o.Servers = []string{nats.DefaultURL} // it is never dialled
		o.SkipHostLookup, o.AllowReconnect = true, false
		o.CustomDialer = stdioDialer{}
		o.ClosedCB = func(*nats.Conn) { endNow() }
		return nil
	}
}

// endNow ends this process as several SIGTERM do, of which the first would let its tasks
// finish, and the third kills them. If something still holds it up, it kills itself, and
// its guardian the tasks.
func endNow() {
	time.AfterFunc(lastMoment, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	for range 3 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}

type stdioDialer struct{}

// Dial moves standard input and output away, so that nothing else reads or writes
// there, and returns the connection that they are.
func (stdioDialer) Dial(string, string) (net.Conn, error) {
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
		err = syscall.Dup3(like, fd, 0)
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
func (c *stdioConn) LocalAddr() net.Addr                { return &net.UnixAddr{Net: "stdio", Name: stdioURL} }
func (c *stdioConn) RemoteAddr() net.Addr               { return c.LocalAddr() }
func (c *stdioConn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *stdioConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *stdioConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
