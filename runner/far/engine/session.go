package engine

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/exec/kernel"
	"crew/runner/far/address"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

const (
	dialWait      = 5 * time.Second // limit for connecting to one address
	reconnectWait = 200 * time.Millisecond
	awayAfter     = 2 * time.Second // report a lost connection after this long
	answerWait    = 5 * time.Second // limit for a reply of the server
)

// session is a connection to a hub, or to another NATS server. It reconnects until it is closed, or
// until the server refuses this user.
type session struct {
	nc        *nats.Conn
	user      string // user token, as a part of subjects
	hub       bool   // the server is a hub, not another NATS server
	requester *outbox.Requester
	blobs     *travel.Blobs
	notices   *notifier
	now       func() time.Duration // time since boot, which includes the time that the machine or the process was suspended

	refusing   sync.Once
	refused    chan struct{} // closed once the server has refused this user or its requests
	refusedErr error         // why; set before refused is closed
}

// connect connects to the hub that address finds for engine. See dial.
func connect(engine string, notice func(string)) (*session, error) {
	url, how, err := address.Find(engine)
	if err != nil {
		return nil, err
	}
	return dial(url, notice, how)
}

// connectWithin connects to a hub. If that fails with one of the given errors, it tries again, for up to
// wait.
func connectWithin(wait time.Duration, engine string, notice func(string), passing ...error) (s *session, err error) {
	for end := time.Now().Add(wait); ; time.Sleep(reconnectWait) {
		s, err = connect(engine, notice)
		if time.Now().After(end) || !slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }) {
			return s, err
		}
	}
}

// dial connects to one of urls, which are separated by commas or blanks, or to the server that options
// name. notice, which may be nil, receives later errors, but not the same one twice in a row.
func dial(urls string, notice func(string), options ...nats.Option) (*session, error) {
	s := &session{refused: make(chan struct{}), notices: &notifier{notice: notice}, now: kernel.SinceBoot}
	o := nats.GetDefaultOptions()
	s.configure(&o)
	for _, set := range options {
		if err := set(&o); err != nil {
			return nil, err
		}
	}
	o.Servers = append(o.Servers, strings.FieldsFunc(urls, func(r rune) bool { return r == ',' || r == ' ' })...)
	user := o.User
	first, _, _ := strings.Cut(urls, ",")
	if u, err := url.Parse(first); err == nil && u.User != nil {
		user = u.User.Username()
	}
	user = userToken(user)
	if o.InboxPrefix == "" {
		o.InboxPrefix = inboxOf(user)
	}
	nc, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address.WithoutPassword(urls), connectHint(dialError(err, o)))
	}
	s.nc, s.hub = nc, nc.ConnectedServerName() == hubName
	if s.requester, err = outbox.NewRequester(nc); err != nil { // the server has closed the connection
		err = s.explain(err)
		s.close()
		return nil, err
	}
	s.setUser(user)
	return s, nil
}

// setUser makes the session send messages, and keep blobs, in the name of user.
func (s *session) setUser(user string) {
	s.user, s.blobs = user, travel.NewBlobs(s.requester, user)
}

// configure makes the client reconnect and report errors.
func (s *session) configure(o *nats.Options) {
	o.Name, o.Timeout, o.SkipHostLookup = "crew", dialWait, true // the dialer looks hosts up within the timeout
	o.MaxReconnect, o.ReconnectWait, o.ReconnectBufSize = -1, reconnectWait, -1
	o.PingInterval, o.MaxPingsOut = time.Second, 3
	away := &atomic.Bool{}
	o.DisconnectedErrCB = func(nc *nats.Conn, err error) {
		time.AfterFunc(awayAfter, func() { // by then the session may have been refused, or be connected again
			if err != nil && !nc.IsConnected() && !nc.IsClosed() && !away.Swap(true) {
				s.notices.notify("the hub is away (" + err.Error() + "): trying to reconnect")
			}
		})
	}
	o.ReconnectedCB = func(*nats.Conn) {
		if away.Swap(false) {
			s.notices.notify("the hub is back")
		}
	}
	o.ClosedCB = func(nc *nats.Conn) { // session.close removes this callback first
		s.fail(nc, fmt.Errorf("the hub has closed the connection: %s", plain(cmp.Or(nc.LastError(), nats.ErrConnectionClosed))))
	}
	// A refusal is reported only here; a request that waits for a reply times out.
	o.AsyncErrorCB = func(nc *nats.Conn, _ *nats.Subscription, err error) {
		if why := refusal(err); why != nil {
			s.fail(nc, why)
		} else if !isNetwork(err) && !errors.Is(err, nats.ErrPermissionViolation) {
			s.notices.notify("the hub says: " + plain(err))
		}
	}
}

func isNetwork(err error) bool {
	_, is := errors.AsType[*net.OpError](err)
	return is
}

// dialError returns the most useful error after no server accepted a connection. err comes from the
// last of them, which may be the only unreachable one, so dialError tries each server again.
func dialError(err error, o nats.Options) error {
	if len(o.Servers) < 2 {
		return err
	}
	errs := make(chan error)
	for _, one := range o.Servers {
		go func() {
			p := o
			p.Servers = []string{one}
			nc, err := p.Connect()
			if err == nil {
				nc.Close() // the server has just started
			}
			errs <- err
		}()
	}
	for range o.Servers {
		if e := <-errs; e != nil && !isNetwork(e) && !errors.Is(e, nats.ErrNoServers) && !errors.Is(e, nats.ErrTimeout) {
			err = e
		}
	}
	return err
}

// refusal returns a message for an error that means that the server refuses this user or its requests.
// It returns nil for other errors.
func refusal(err error) error {
	switch _, what, _ := strings.Cut(err.Error(), "Permissions Violation for "); {
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return errors.New("the credentials for the hub have expired: ask the owner of the hub for new ones (crew engine invite)")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthRevoked):
		return errRefused
	case errors.Is(err, nats.ErrPermissionViolation) && !isLateReply(what):
		return fmt.Errorf("these credentials do not allow that: a run needs credentials of a submitter, crew worker those of a worker, "+
			"crew engine invite and revoke those of the owner (refused was %s)", what)
	}
	return nil
}

// isLateReply reports whether the server refused a reply to a request, which came too late.
func isLateReply(what string) bool {
	subject, published := strings.CutPrefix(what, `Publish to "`)
	return published && !strings.HasPrefix(subject, "crew.") && !strings.HasPrefix(subject, "$")
}

var errRefused = errors.New("the hub does not know this user: the credentials are missing, expired, revoked, or for another hub: " +
	"name the file of a context, as crew engine invite makes it, such as ./worker.json, or set NATS_CREDS")

// fail ends the session because the server has refused it or closed the connection.
func (s *session) fail(nc *nats.Conn, why error) {
	s.refusing.Do(func() {
		s.refusedErr = why
		close(s.refused)
		nc.Close()
	})
}

// explain returns why the server refused the session, if it has, and otherwise a readable form of err.
// A user whose connection was cut is refused only on reconnecting, and the reason for a closed
// connection is reported by another goroutine, so explain waits a little for either.
func (s *session) explain(err error) error {
	if isTransient(err) && !s.nc.IsConnected() && s.nc.ClosedHandler() != nil { // see close
		select {
		case <-s.refused:
		case <-s.nc.StatusChanged(nats.CONNECTED):
		case <-time.After(awayAfter):
		}
	}
	select {
	case <-s.refused:
		if err != nil {
			return s.refusedErr
		}
	default:
	}
	if isTransient(err) {
		err = errNoAnswer
	}
	return err
}

// checkAllowed returns an error if the server does not answer, or has refused a request so far.
func (s *session) checkAllowed() error {
	err := s.nc.FlushTimeout(answerWait)
	if last := s.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && refusal(last) != nil {
		<-s.refused // another goroutine sets the error
		err = s.refusedErr
	}
	return err
}

// No server answers, perhaps not yet.
var (
	errNoServer = errors.New("no server answers: start one there with crew engine serve, or correct the URL")
	errSilent   = fmt.Errorf("no answer within %v: correct the URL, or check the firewall", dialWait)
)

// connectHint returns a message for an error of connecting that says what to do.
func connectHint(err error) error {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	name, isName := errors.AsType[x509.HostnameError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF): // the last two while a server starts or ends
		return errNoServer
	case refusal(err) != nil:
		return refusal(err)
	case unknown:
		return errors.New("the server's certificate is not trusted: the context is for another hub, or has no ca_text: " +
			"use what crew engine invite prints there, or set NATS_CA")
	case isName:
		return fmt.Errorf("the server's certificate is not for %s: start crew engine serve with --host %[1]s", name.Host)
	case errors.Is(err, nats.ErrNoInfoReceived):
		return errors.New("the server there is not a NATS server: correct the URL")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("the server there has no TLS: write nats://, and no CA")
	case isNetwork && network.Timeout(), errors.Is(err, nats.ErrTimeout):
		return errSilent
	case isNetwork:
		return fmt.Errorf("%w: correct the URL", err)
	}
	return errors.New(plain(err))
}

// plain returns the text of an error of the client without the package name.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "nats: ") }

func (s *session) close() {
	s.nc.SetClosedHandler(nil) // a close by this side is no error
	s.nc.Close()
}

// errNoAnswer means that the connection does not hold.
var errNoAnswer = errors.New("the hub does not answer: try again once it is up")

// isTransient reports whether err may come from an interrupted connection, so that the request can be
// tried again.
func isTransient(err error) bool {
	for _, e := range [...]error{
		nats.ErrReconnectBufExceeded, nats.ErrNoResponders, nats.ErrTimeout, context.DeadlineExceeded,
		nats.ErrConnectionClosed, // also if a flush was interrupted, and there is a new connection
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sleep waits for d. It returns false, at once, when ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// notifier passes on notices that differ from the previous one. It is safe for concurrent use.
type notifier struct {
	notice func(string) // may be nil
	mu     sync.Mutex
	last   string
}

func (o *notifier) notify(text string) {
	o.mu.Lock()
	again := text == o.last
	o.last = text
	o.mu.Unlock()
	if !again && o.notice != nil {
		o.notice(text)
	}
}
