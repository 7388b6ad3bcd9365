package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	reconnectWait = 200 * time.Millisecond
	answerWait    = 5 * time.Second // for a reply of the server
	leastServer   = "2.11.0"        // limits and TTLs of messages
)

// session is a connection to the engine. It reconnects for ever.
type session struct {
	nc *nats.Conn
	js jetstream.JetStream

	store struct {
		mu sync.Mutex // held while it is looked for
		objects
	}
}

// connect connects to an engine, as dialOptions finds it. See dial.
func connect(engine string, notice func(string), options ...nats.Option) (*session, error) {
	url, how, err := dialOptions(engine)
	if err != nil {
		return nil, err
	}
	return dial(url, notice, append(options, how...)...)
}

// dial connects to a server and checks its version. Without a URL, options say where it
// is. notice is told what goes wrong later, once for each kind of it; it may be nil.
func dial(url string, notice func(string), options ...nats.Option) (*session, error) {
	told, denied := &once{notice: notice}, atomic.Bool{}
	options = append([]nats.Option{
		nats.Name("crew"),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectBufSize(-1),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				told.say("the engine is away (" + err.Error() + "): trying to reconnect")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { told.say("the engine is back") }),
		// A refused permission comes here alone; whoever waits for a reply sees a time-out.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrPermissionViolation) {
				told.say("the engine says: " + plain(err))
			} else if denied.CompareAndSwap(false, true) {
				_, what, _ := strings.Cut(err.Error(), "Permissions Violation for ")
				told.say("the engine does not let this user do what crew needs (" + what +
					"): runs need the rights of a submitter, crew worker those of a worker, crew engine init all")
			}
		}),
	}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", withoutPassword(url), connectHint(err))
	}
	if version := nc.ConnectedServerVersion(); olderThan(version, leastServer) {
		nc.Close()
		return nil, fmt.Errorf("the server is nats-server %s, and crew needs %s: streams there cannot expire single messages",
			version, leastServer)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(answerWait))
	return &session{nc: nc, js: js}, err
}

// errNoServer says that no server is there, maybe not yet.
var errNoServer = errors.New("no server answers: start one there with crew engine serve, or correct the URL")

// connectHint adds what to do about an error of connecting.
func connectHint(err error) error {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, syscall.ECONNRESET): // the second while it starts or ends
		return errNoServer
	case errors.Is(err, nats.ErrAuthorization):
		return errors.New("the server refuses the credentials, or that there are none: " +
			"name a NATS context that has them, such as ./worker.json, or set NATS_CREDS")
	case unknown:
		return fmt.Errorf("%w: set NATS_CA to the file of its certificate", err)
	case errors.Is(err, nats.ErrNoInfoReceived):
		return errors.New("what answers is no NATS server: correct the URL")
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("one side wants TLS, and the other does not: write tls:// or nats://")
	case network:
		return fmt.Errorf("%w: correct the URL", err)
	}
	return errors.New(plain(err))
}

// plain returns an error of the client without the name of its package.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "nats: ") }

// olderThan compares versions such as 2.11.0, of which it ignores what follows.
func olderThan(a, b string) bool {
	parse := func(v string) (n [3]int) {
		_, _ = fmt.Sscanf(v, "%d.%d.%d", &n[0], &n[1], &n[2])
		return n
	}
	x, y := parse(a), parse(b)
	return slices.Compare(x[:], y[:]) < 0
}

func (s *session) close() {
	s.nc.SetClosedHandler(nil) // this end is no surprise
	s.nc.Close()
}

// notReady explains an error of looking for crew's streams.
func notReady(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return errors.New("the engine has no streams of crew's: run crew engine init there")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the engine does not answer: try again once it is up")
	}
	return err
}

// keptFor is how long the streams keep messages that nobody removes: those of a run that
// was killed, or of one that was handed over and whose results nobody fetches.
const keptFor = 30 * 24 * time.Hour

// limits are those of the streams.
type limits struct {
	storage  jetstream.StorageType
	tasks    int64 // messages; a submitter then waits
	results  int64 // bytes; workers then wait
	stored   int64 // bytes; who hands a run over then waits; 0 where no run is handed over
	replicas int
}

var diskLimits = limits{storage: jetstream.FileStorage, tasks: 100_000, results: 1 << 30, stored: 1 << 30, replicas: 1}

// create makes the streams and buckets, or leaves those that there are as they are.
func (s *session) create(ctx context.Context, l limits) error {
	there := func(err error) bool {
		return err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, jetstream.ErrBucketExists)
	}
	for _, c := range []jetstream.StreamConfig{
		{Name: tasksStream, Subjects: []string{"crew.t.>"}, Retention: jetstream.WorkQueuePolicy, MaxMsgs: l.tasks, MaxAge: keptFor},
		{Name: resultsStream, Subjects: []string{"crew.r.>"}, Retention: jetstream.LimitsPolicy, MaxBytes: l.results, MaxAge: keptFor},
		{Name: storedStream, Subjects: []string{"crew.d.>"}, Retention: jetstream.LimitsPolicy, MaxBytes: l.stored, MaxAge: keptFor},
	} {
		if c.Name == storedStream && l.stored == 0 {
			continue
		}
		c.Storage, c.Replicas, c.Discard = l.storage, l.replicas, jetstream.DiscardNew
		c.Duplicates, c.AllowDirect = 2*time.Minute, c.Name != storedStream // whose last message must be known
		if _, err := s.js.CreateStream(ctx, c); !there(err) {
			return err
		}
	}
	for _, bucket := range []string{workersBucket, runsBucket} {
		if _, err := s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucket, Storage: l.storage, Replicas: l.replicas, LimitMarkerTTL: time.Minute,
		}); !there(err) {
			return err
		}
	}
	if _, err := s.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: filesBucket, Storage: jetstream.FileStorage, Replicas: l.replicas, MaxBytes: -1,
	}); !there(err) {
		return err
	}
	return nil
}

// ready returns an error unless the engine has crew's streams.
func (s *session) ready() error {
	for _, name := range [...]string{tasksStream, workersStream} {
		if _, err := s.js.Stream(context.Background(), name); err != nil {
			return notReady(err)
		}
	}
	return nil
}
