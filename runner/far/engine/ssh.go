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
	"crew/runner/front/wiring"
)

// sshHosts is what a run with --ssh has of its own: a worker on each host, and in this
// process, without a port, the server that they share with the submitter.
type sshHosts struct {
	*ssh.Hosts
	secret   string // of which the marks of its hosts are made
	password string // of the owner
	server   *server.Server
}

// startHosts starts the server and the workers, which run until close.
func startHosts(sub wiring.Submission) (*sshHosts, error) {
	p := &sshHosts{secret: rand.Text(), password: rand.Text()}
	var err error
	p.server, err = startServer(&server.Options{
		DontListen: true, WriteDeadline: time.Minute, // cuts off an ssh that stands still this long
		CustomClientAuthentication: p,
	})
	if err != nil {
		return nil, err
	}
	c := ssh.Config{Hosts: p.workers(sub), Connect: p.server.InProcessConn, Notice: sub.Notice, Reach: sub.Reach}
	if p.Hosts, err = ssh.Start(c); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// workers returns the workers of a run.
func (p *sshHosts) workers(sub wiring.Submission) (list []ssh.Host) {
	for _, h := range sub.Hosts {
		sum := sha256.Sum256([]byte(p.secret + " " + h.Target + " " + h.Port))
		mark := hex.EncodeToString(sum[:16])
		args := []string{
			"--protocol", strconv.Itoa(wiring.EngineProtocol), "worker", "--engine", stdioURL + mark, "--queue", sub.Queue,
			"--worker-ttl", sub.TTL.String(), "--allow-commands", "--trust", stdioURL, "--quiet", "--progress", "never",
			"--worker-window", strconv.Itoa(sub.Window),
		}
		if sub.PTY {
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

// Check has a client be the owner, or a worker whose name is the mark of its host, which other
// hosts cannot guess. See server.Authentication.
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

// close ends the workers, and then the server.
func (p *sshHosts) close() {
	p.Hosts.Close()
	p.stop()
}

func (p *sshHosts) stop() {
	p.server.Shutdown()
	p.server.WaitForShutdown()
}

// stdioURL begins the engine of a worker that --ssh has started: the server of the run,
// which it reaches through its standard input and output. What follows marks its host.
const stdioURL = "stdio:"

// lastMoment limits how long a worker whose run is gone takes to end.
const lastMoment = 2 * time.Second

// dialStdio has a connection go over standard input and output, once. When it ends, but
// for session.close, gone is called. A silence ends it only once the lease, which lasts for
// ttl, must have run out: there is no second connection.
func dialStdio(ttl time.Duration, gone func()) nats.Option {
	return func(o *nats.Options) error {
		o.MaxPingsOut = max(o.MaxPingsOut, int(ttl/o.PingInterval))
		o.Servers = []string{nats.DefaultURL} // it is never dialled
		o.SkipHostLookup, o.AllowReconnect = true, false
		o.CustomDialer = stdioDialer{}
		o.ClosedCB = func(*nats.Conn) { gone() }
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
