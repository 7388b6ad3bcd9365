package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"crew/runner/far/credentials"
	"crew/runner/far/ssh"
	"crew/runner/front/cli"
	"crew/runner/front/wiring"
)

// sshHosts is the infrastructure of a run with --ssh: a worker on each host and, in this process and
// without a port, the server that connects them with the submitter.
type sshHosts struct {
	*ssh.Hosts
	secret   string // the marks of the hosts are derived from it
	password string // of the submitter
	server   *server.Server
}

// startHosts starts the server and the workers, which run until close.
func startHosts(sub *wiring.Call) (*sshHosts, error) {
	p := &sshHosts{secret: rand.Text(), password: rand.Text()}
	var err error
	p.server, err = startServer(&server.Options{
		DontListen: true, WriteDeadline: time.Minute, // closes the connection of an ssh that stalls this long
		CustomClientAuthentication: p,
	})
	if err != nil {
		return nil, err
	}
	c := ssh.Config{Hosts: p.workers(sub, sub.Hosts), Connect: p.server.InProcessConn, Notice: sub.Notice, Reach: sub.Engine.Reach}
	if p.Hosts, err = ssh.Start(c); err != nil {
		stopServer(p.server)
		return nil, err
	}
	return p, nil
}

// workers returns the workers to start on hosts.
func (p *sshHosts) workers(sub *wiring.Call, hosts []cli.Host) (list []ssh.Host) {
	for _, h := range hosts {
		sum := sha256.Sum256([]byte(p.secret + " " + h.Target + " " + h.Port))
		mark := hex.EncodeToString(sum[:16])
		args := []string{
			"--protocol", strconv.Itoa(wiring.EngineProtocol), "worker", "--engine", stdioURL + mark, "--queue", sub.Engine.Queue,
			"--worker-ttl", sub.Engine.TTL.String(), "--allow-commands", "--trust", stdioURL, "--quiet", "--progress", "never",
			"--worker-window", strconv.Itoa(sub.Coproc.Window),
		}
		if sub.Pool.PTY {
			args = append(args, "--pty")
		}
		if h.Name != "" {
			args = append(args, "--name", h.Name)
		}
		if h.Slots > 0 {
			args = append(args, "--jobs", strconv.Itoa(h.Slots))
		}
		list = append(list, ssh.Host{Target: h.Target, Port: h.Port, Args: args, Mark: mark})
	}
	return list
}

// Check authenticates a client as the submitter or as a worker. The name of a worker is the mark of
// its host, which other hosts cannot guess. See server.Authentication.
func (p *sshHosts) Check(c server.ClientAuthentication) bool {
	switch o := c.GetOpts(); {
	case o.Username == credentials.Owner:
		c.RegisterUser(&server.User{Username: o.Username})
		return o.Password == p.password
	case !validName(o.Username):
		return false
	default:
		c.RegisterUser(&server.User{Username: o.Username, Permissions: rightsOf(credentials.User{Name: o.Username})})
		return true
	}
}

// connect connects the submitter to the server.
func (p *sshHosts) connect(notice func(string)) (*session, error) {
	return dial("", notice, nats.InProcessServer(p.server), nats.UserInfo(credentials.Owner, p.password))
}

// close ends the workers, and then the server. It does nothing if there are no hosts.
func (p *sshHosts) close() {
	if p != nil {
		p.Hosts.Close()
		stopServer(p.server)
	}
}

// stdioURL begins the --engine of a worker that --ssh has started. The worker reaches the run's server
// through its standard input and output. The mark of its host follows.
const stdioURL = "stdio:"

// lastMoment limits how long a worker takes to end after its run has gone.
const lastMoment = 2 * time.Second

// dialStdio makes a connection use standard input and output, once. When it ends other than by
// session.close, gone is called. Because there is no second connection, silence ends it only after
// ttl, when the lease must have run out.
func dialStdio(ttl time.Duration, gone func()) nats.Option {
	return func(o *nats.Options) error {
		o.MaxPingsOut = max(o.MaxPingsOut, int(ttl/o.PingInterval))
		o.Servers = []string{nats.DefaultURL} // never dialled
		o.SkipHostLookup, o.AllowReconnect = true, false
		o.CustomDialer = stdioDialer{}
		o.ClosedCB = func(*nats.Conn) { gone() }
		return nil
	}
}

// endNow ends this process like three SIGTERM: the first alone would let its tasks finish, and the
// third kills them. If the process is still there after lastMoment, it kills itself, and its guardian
// kills the tasks.
func endNow() {
	time.AfterFunc(lastMoment, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	for range 3 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}

type stdioDialer struct{}

func (stdioDialer) Dial(string, string) (net.Conn, error) { return ssh.Stdio() }
