package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"crew/runner/far/address"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
	"crew/runner/keep/trust"
)

const hubName = "crew" // name of the hub's server

// serve runs a hub until a signal ends it.
func serve(c *wiring.Call) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h, err := openHub(c)
	if err != nil {
		return err
	}
	defer h.close()
	if err = h.writeOwner(); err != nil {
		return err
	}
	s, err := h.connect(c.Notice)
	if err != nil {
		return err
	}
	defer s.close()
	d, err := newDispatcher(ctx, s, h.server.InProcessConn, h.file("runs"), c.Hub.MaxOutput, c.Notice)
	if err != nil {
		return err
	}
	if _, err = s.serveOrders(hubSubject, h.carryOut); err != nil {
		return err
	}
	c.Notice("the hub listens at " + h.url)
	c.Notice("connect with --engine " + h.file(ownerFile) + "; crew engine invite prints contexts for others")
	c.Ready()
	return d.serve()
}

// hub is a NATS server with its users.
type hub struct {
	dir      string
	lock     *os.File
	server   *server.Server
	users    *credentials.Users
	password string // the owner's
	url      string // URL for clients
	localURL string // put before url for the owner, with a comma, or "": a router may not let this machine reach its own public address
	ca       string // certificate that clients have to trust, as PEM; "" without TLS, or for a public authority
}

// ownerFile is the name of the owner's context. The owner has all rights.
const ownerFile = "admin.json"

// openHub opens the hub's directory and starts its server.
func openHub(c *wiring.Call) (h *hub, err error) {
	h = &hub{}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	l, err := address.ListenAt(c.Hub.Listen, c.Hub.Hosts, c.Hub.Cert != "")
	if err != nil {
		return h, err
	}
	if err := h.openDir(c.Hub.Dir); err != nil {
		return h, err
	}
	if err := l.Probe(); err != nil {
		return h, err
	}
	o := &server.Options{Host: l.Host, Port: cmp.Or(l.Port, server.RANDOM_PORT), ServerName: hubName}
	if l.TLS {
		if err = h.secure(c, &l, o); err != nil {
			return h, err
		}
	}
	if h.users, err = h.openUsers(); err != nil {
		return h, err
	}
	o.CustomClientAuthentication = h.users
	if h.server, err = startServer(o); err != nil {
		return h, err
	}
	h.server.SetLogger(&serverLog{notices: notifier{notice: c.Notice}}, false, false)
	port := h.server.Addr().(*net.TCPAddr).Port
	if h.url = l.URL(port); l.TLS && c.Hub.Cert == "" && net.ParseIP(l.Host).IsUnspecified() {
		h.localURL = fmt.Sprintf("tls://127.0.0.1:%d,", port)
	}
	return h, nil
}

// serverLog reports that the server cannot accept connections for lack of file descriptors.
type serverLog struct{ notices notifier }

// Errorf implements server.Logger, like the methods below.
func (l *serverLog) Errorf(_ string, args ...any) {
	for _, arg := range args {
		if err, is := arg.(error); is && errors.Is(err, unix.EMFILE) {
			l.notices.notify("the hub has no file descriptor left for another connection: start it with a higher ulimit -n")
		}
	}
}

func (*serverLog) Noticef(string, ...any) {}
func (*serverLog) Warnf(string, ...any)   {}
func (*serverLog) Fatalf(string, ...any)  {}
func (*serverLog) Debugf(string, ...any)  {}
func (*serverLog) Tracef(string, ...any)  {}

// secure sets the TLS options of the server.
func (h *hub) secure(c *wiring.Call, l *address.Listening, o *server.Options) error {
	var cert credentials.Certificate
	var err error
	if c.Hub.Cert == "" {
		cert, err = credentials.MakeCertificate(h.dir, l.Names)
	} else {
		cert, err = credentials.LoadCertificate(c.Hub.Cert, c.Hub.Key, c.Hub.Hosts)
	}
	l.Names, h.ca = cert.Names, cert.CA
	o.TLS, o.TLSTimeout, o.TLSConfig = true, 5, cert.TLS
	return err
}

// connect connects as the owner, within this process.
func (h *hub) connect(notice func(string)) (*session, error) {
	return dial("", notice, nats.InProcessServer(h.server), nats.UserInfo(credentials.Owner, h.password))
}

// openDir makes the directory and locks it. It refuses a directory with files that are not a hub's.
func (h *hub) openDir(dir string) (err error) {
	if h.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err = trust.MakeDir(h.dir); err == nil {
		err = h.checkDir()
	}
	if err == nil {
		h.lock, err = lockFile(h.file("lock"), os.O_CREATE)
	}
	if _, is := errors.AsType[*os.PathError](err); is {
		return fmt.Errorf("%w: give a --dir where the hub can write", err)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another crew engine serve uses %s: end it, or give another --dir", h.dir)
	}
	return err
}

// checkDir returns an error unless the directory is empty or a hub's. A hub creates its lock first.
func (h *hub) checkDir() error {
	list, err := os.ReadDir(h.dir)
	if err != nil || len(list) == 0 {
		return err
	}
	if st, err := os.Lstat(h.file("lock")); err == nil && st.Size() == 0 {
		return nil
	}
	return fmt.Errorf("%s has files that are not from a hub: give a new or empty --dir", h.dir)
}

// file returns the path of a file in the hub's directory.
func (h *hub) file(name string) string { return filepath.Join(h.dir, name) }

// openUsers loads the users, and loads or makes the owner's password.
func (h *hub) openUsers() (*credentials.Users, error) {
	c, err := address.Read(h.file(ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		c, err = &address.Context{}, nil
	}
	if err != nil {
		return nil, err
	}
	h.password = cmp.Or(c.Password, rand.Text())
	return credentials.OpenUsers(h.dir, h.password, rightsOf)
}

// writeOwner writes the owner's context.
func (h *hub) writeOwner() error {
	c := h.context(credentials.Owner, h.password)
	c.URL = h.localURL + c.URL
	text, err := contextText(c)
	if err != nil {
		return err
	}
	return trust.WritePrivate(h.file(ownerFile), text)
}

func contextText(c *address.Context) ([]byte, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	return append(text, '\n'), err
}

// close stops the server and unlocks the directory.
func (h *hub) close() {
	if h.server != nil {
		stopServer(h.server)
	}
	if h.lock != nil {
		_ = unix.Flock(int(h.lock.Fd()), unix.LOCK_UN) // a process that is being started may have inherited the lock
		h.lock.Close()
	}
}

// carryOut carries out an order of the owner.
func (h *hub) carryOut(o *Order, a *Answer) (err error) {
	switch {
	case o.User == nil:
		err = errGarbage
	case o.Op == opInvite:
		a.Context, err = h.invite(*o.User)
	case o.Op == opRevoke:
		if err = h.users.Revoke(o.User.Name); err == nil {
			a.Conns, err = h.disconnect(o.User.Name)
		}
	default:
		err = o.unknown()
	}
	return err
}

// invite lets a user connect with the context that it returns.
func (h *hub) invite(v credentials.User) (*address.Context, error) {
	password, err := h.users.Invite(v)
	if err != nil {
		return nil, err
	}
	c := h.context(v.Name, password)
	c.Expires = v.Expires
	return c, nil
}

// disconnect closes the connections of a user, and returns how many there were. The server knows the
// name of a client before it admits it, so no admitted client is missed.
func (h *hub) disconnect(name string) (n int, err error) {
	list, err := h.server.Connz(&server.ConnzOptions{User: name, Limit: math.MaxInt})
	if err != nil {
		return 0, err
	}
	for _, c := range list.Conns {
		if h.server.DisconnectClientByID(c.Cid) == nil {
			n++
		}
	}
	return n, nil
}

// context returns the context for a user.
func (h *hub) context(name, password string) *address.Context {
	return &address.Context{URL: h.url, User: name, Password: password, CAText: h.ca}
}
