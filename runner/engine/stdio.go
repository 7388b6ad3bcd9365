package engine

import (
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/ssh"
)

// stdioURL begins the engine of a worker that --ssh has started: the server of the run,
// which it reaches through its standard input and output. What follows marks its host.
const stdioURL = "stdio:"

// lastMoment limits how long a worker whose run is gone takes to end.
const lastMoment = 2 * time.Second

// dialStdio has a connection go over standard input and output, once. When it ends, but
// for session.close, the tasks of this process are killed and it ends. A silence ends it
// only once the lease, which lasts for ttl, must have run out: there is no second
// connection.
func dialStdio(ttl time.Duration) nats.Option {
	return func(o *nats.Options) error {
		o.MaxPingsOut = max(o.MaxPingsOut, int(ttl/o.PingInterval))
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

func (stdioDialer) Dial(string, string) (net.Conn, error) { return ssh.Stdio() }
