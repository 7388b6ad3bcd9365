package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	retryAfter  = 5 * time.Second        // a request without an answer is repeated after this
	absentPause = 200 * time.Millisecond // or after this, if the subject has no subscriber
)

// Requester sends requests on a connection and repeats each until it is answered. A receiver may get a
// request several times, and must answer each time. Requester is safe for concurrent use.
type Requester struct {
	Conn   *nats.Conn
	inbox  string        // prefix of reply subjects; a name follows
	closed chan struct{} // closed once Conn is

	mu      sync.Mutex
	pending map[string]chan []byte // by reply name; names cannot be guessed
	least   time.Duration          // the quickest short request took this long; 0 before the first
}

// NewRequester returns a Requester for a connection. Its goroutine ends when the connection is closed.
func NewRequester(nc *nats.Conn) (*Requester, error) {
	r := &Requester{Conn: nc, inbox: nc.NewInbox() + ".", closed: make(chan struct{}), pending: map[string]chan []byte{}}
	status := nc.StatusChanged(nats.CLOSED, nats.CONNECTED)
	go func() {
		for <-status != nats.CLOSED {
			r.repeatAll()
		}
		close(r.closed)
	}()
	_, err := nc.Subscribe(r.inbox+"*", r.receive)
	return r, err
}

// Request sends a request until it is answered, and returns the answer. The caller must have acquired
// size bytes of w for the request or its answer. Request releases them once the request is answered,
// sent a second time, or given up. It returns nil if ctx is done or the connection is closed.
func (r *Requester) Request(ctx context.Context, w *Window, size int, subject string, data []byte) (answer []byte) {
	name, answers := rand.Text(), make(chan []byte, 1)
	began, took, tries := time.Now(), time.Duration(0), 0
	r.mu.Lock()
	r.pending[name] = answers
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.pending, name)
		if took > 0 && size <= Short {
			r.least = min(took, cmp.Or(r.least, took))
		}
		r.mu.Unlock()
		if tries == 1 {
			w.Release(size, r.Delay(took))
		}
	}()
	send := func() {
		if tries++; tries == 2 { // an answer could belong to either, so its time means nothing
			w.Release(size, 0)
		}
		_ = r.Conn.PublishMsg(&nats.Msg{Subject: subject, Reply: r.inbox + name, Data: data})
	}
	send()
	due := time.NewTimer(retryAfter)
	defer due.Stop()
	for {
		select {
		case answer = <-answers:
			if len(answer) > 0 {
				took = time.Since(began)
				return answer
			}
			due.Reset(absentPause)
		case <-due.C:
			send()
			due.Reset(retryAfter)
		case <-ctx.Done():
			return nil
		case <-r.closed:
			return nil
		}
	}
}

// Delay returns how long data waited behind other data: took less the latency, which is the time of the
// quickest short request. Delay returns at least 1, or 0 if took is 0.
func (r *Requester) Delay(took time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(took, max(1, took-r.least))
}

// repeatAll sends all requests again, after absentPause.
func (r *Requester) repeatAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answers := range r.pending {
		deliver(answers, nil)
	}
}

// deliver passes an answer to a request. If the answer is empty, the request is sent again after
// absentPause. The caller must hold mu.
func deliver(answers chan []byte, answer []byte) {
	if len(answer) > 0 {
		select {
		case <-answers: // make room, unless the request has just taken it
		default:
		}
	}
	select {
	case answers <- answer:
	default:
	}
}

// receive handles an answer, or the server's empty reply if there is no subscriber.
func (r *Requester) receive(m *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answers := r.pending[strings.TrimPrefix(m.Subject, r.inbox)]; answers != nil {
		deliver(answers, m.Data)
	}
}

// Answer answers a message. It does not answer if the reply subject is one that only this process may
// publish to, because a malicious sender could use that.
func Answer(m *nats.Msg, data []byte) {
	if !strings.HasPrefix(m.Reply, "crew.") && !strings.HasPrefix(m.Reply, "$") {
		_ = m.Respond(data) // if this fails, the message comes again
	}
}
