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
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"crew/runner/address"
	"crew/runner/trust"
	"crew/runner/wiring"
)

const (
	hubListen = "127.0.0.1:4222"
	hubMemory = 384 << 20 // from which it is collected at once
)

// serve runs a hub until a signal ends it.
func serve(c *wiring.EngineCall) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h, err := openHub(c)
	if err != nil {
		return err
	}
	defer h.close()
	for _, text := range []string{
		"the hub listens at " + h.url,
		"workers connect with --engine " + h.file("worker") + ", submitters with --engine " + h.file("submitter"),
	} {
		c.Notice(text)
	}
	d, err := newDispatcher(func(notice func(string)) (*session, error) {
		return dial("", notice, nats.InProcessServer(h.server), h.owner)
	}, c.Notice)
	if err != nil {
		return err
	}
	d.hub = true
	if os.Getenv("GOMEMLIMIT") == "" { // the server's caches of large outputs make garbage
		debug.SetMemoryLimit(hubMemory)
	}
	d.serve(ctx)
	return nil
}

// hub is a server with crew's streams.
type hub struct {
	dir    string
	lock   *os.File
	server *server.Server
	owner  nats.Option // what connects as its owner
	url    string      // for clients
}

// codeNoRoom is the server's error code for a stream that its disk could not hold.
const codeNoRoom = 10047

// openHub starts the server, makes the streams, and writes the files by which clients
// connect.
func openHub(c *wiring.EngineCall) (h *hub, err error) {
	h = &hub{}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	o := &server.Options{SyncAlways: true, Host: "127.0.0.1", ServerName: "crew"}
	name, err := listenAt(c, o)
	if err != nil {
		return h, err
	}
	if err := h.openDir(c.Dir); err != nil {
		return h, err
	}
	probe, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(max(0, o.Port))))
	if err != nil { // the server would not say so
		return h, fmt.Errorf("%w: end what listens there, or give another --listen", err)
	}
	probe.Close()
	o.StoreDir = filepath.Join(h.dir, "data")
	owner := &server.User{Username: "hub", Password: rand.Text()}
	o.Users = []*server.User{owner}
	users := map[string]*address.Context{}
	for who, r := range map[string]rights{"submitter": submitterRights(), "worker": workerRights()} {
		if users[who], err = h.user(who); err != nil {
			return h, err
		}
		o.Users = append(o.Users, &server.User{Username: users[who].User, Password: users[who].Password, Permissions: r.permissions()})
	}
	h.owner = nats.UserInfo(owner.Username, owner.Password)
	l := diskLimits
	l.unsynced = true
	if _, err := os.Stat(h.file("worker")); err == nil { // it has run before: what it holds is served on any disk
		o.JetStreamMaxStore = math.MaxInt64 / 2
	}
	h.server, err = startServer(o, l, h.owner)
	if codeOf(err) == codeNoRoom {
		err = fmt.Errorf("a new hub needs %d MiB of free disk: free some, or give another --dir", (l.results+l.stored)/3*4>>20) // the server takes three quarters
	}
	if err != nil {
		return h, err
	}
	h.server.SetLogger(&serverLog{once{notice: c.Notice}}, false, false)
	port := h.server.Addr().(*net.TCPAddr).Port
	h.url = "nats://" + net.JoinHostPort(name, strconv.Itoa(port))
	for who, u := range users {
		u.URL = h.url
		if err := h.write(who, u); err != nil {
			return h, err
		}
	}
	return h, nil
}

// serverLog tells the errors of a server.
type serverLog struct{ told once }

func (l *serverLog) Errorf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !strings.Contains(text, " - cid:") { // clients are told what they do wrong
		l.told.say("the hub says: " + text)
	}
}
func (l *serverLog) Fatalf(format string, v ...any) { l.Errorf(format, v...) }
func (l *serverLog) Warnf(string, ...any)           {}
func (l *serverLog) Noticef(string, ...any)         {}
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}

// listenAt sets in o where the server listens, and returns the name by which clients
// find it.
func listenAt(c *wiring.EngineCall, o *server.Options) (name string, err error) {
	listen := cmp.Or(c.Listen, hubListen)
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		o.Port, err = strconv.Atoi(port)
	}
	if err != nil || o.Port < 0 || o.Port > 65535 {
		return "", fmt.Errorf("%q is no address to listen at: write HOST:PORT, such as %s or :4222", listen, hubListen)
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && c.Cert == "" {
		return "", fmt.Errorf("without TLS a hub listens on loopback alone, not at %s: give --tls-cert and --tls-key, or --listen %s", listen, hubListen)
	}
	o.Host = cmp.Or(host, "0.0.0.0")
	if c.Cert == "" {
		return host, nil
	}
	o.TLS, o.TLSTimeout = true, 5
	if o.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.Cert, KeyFile: c.Key}); err != nil {
		return "", fmt.Errorf("read the certificate: %w", err)
	}
	if leaf := o.TLSConfig.Certificates[0].Leaf; leaf != nil && leaf.VerifyHostname(host) != nil {
		switch { // clients check the name
		case len(leaf.DNSNames) > 0:
			return leaf.DNSNames[0], nil
		case len(leaf.IPAddresses) > 0:
			return leaf.IPAddresses[0].String(), nil
		}
	}
	return host, nil
}

// openDir makes the directory, and holds it against other hubs.
func (h *hub) openDir(dir string) (err error) {
	if h.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err = trust.MakeDir(h.dir); err == nil {
		h.lock, err = trust.OpenOwn(filepath.Join(h.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if _, untrusted := errors.AsType[*trust.Error](err); untrusted {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: give a --dir where the hub can write", err)
	}
	err = unix.Flock(int(h.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another crew engine serve uses %s: end it, or give another --dir", h.dir)
	}
	return err
}

// file returns the name of the NATS context of a user of the hub. It holds the
// password.
func (h *hub) file(user string) string { return filepath.Join(h.dir, user+".json") }

// user reads the context of a user of the hub, or makes it.
func (h *hub) user(name string) (*address.Context, error) {
	c, err := address.Read(h.file(name))
	if errors.Is(err, os.ErrNotExist) {
		return &address.Context{User: name, Password: rand.Text()}, nil
	}
	if err == nil && (c.User == "" || c.Password == "") {
		err = fmt.Errorf("there is no user and password in %s: remove it, and new ones are made", h.file(name))
	}
	return c, err
}

// write writes the context of a user, unless it is as it should be.
func (h *hub) write(name string, c *address.Context) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if old, err := os.ReadFile(h.file(name)); err == nil && string(old) == string(text) {
		return nil
	}
	return writePrivate(h.file(name), text)
}

// close ends the server, once all is on disk.
func (h *hub) close() {
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	if h.lock != nil {
		h.lock.Close()
	}
}
