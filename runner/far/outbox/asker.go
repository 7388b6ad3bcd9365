package outbox

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	askPatience = 5 * time.Second        // after which a question without an answer is asked again
	gonePause   = 200 * time.Millisecond // the same if nobody was there
)

// Asker asks questions on a connection, each again and again until it is answered. Whoever gets a
// question twice answers it twice. It is safe for concurrent use.
type Asker struct {
	Conn   *nats.Conn
	inbox  string        // subjects of answers are this and a name
	closed chan struct{} // once Conn is

	mu    sync.Mutex
	open  map[string]chan []byte // by the names of their answers, which nobody can guess
	heard int64                  // answers, also that nobody is there
}

// NewAsker returns an Asker of a connection, whose goroutine ends when that is closed.
func NewAsker(nc *nats.Conn) (*Asker, error) {
	a := &Asker{Conn: nc, inbox: nc.NewInbox() + ".", closed: make(chan struct{}), open: map[string]chan []byte{}}
	status := nc.StatusChanged(nats.CLOSED, nats.CONNECTED)
	go func() {
		for is := range status {
			if is == nats.CLOSED {
				close(a.closed)
				return
			}
			a.again()
		}
	}()
	_, err := nc.Subscribe(a.inbox+"*", a.answered)
	return a, err
}

// Ask asks a question, for which, or for its answer, size bytes of a window are taken: it gives them back
// once it is answered, or asked again. It returns nil if ctx is done, or the connection closed.
func (a *Asker) Ask(ctx context.Context, w *Window, size int, subject string, data []byte) (answer []byte) {
	name, answers := rand.Text(), make(chan []byte, 1)
	began, took, tries := time.Now(), time.Duration(0), 0
	a.mu.Lock()
	a.open[name] = answers
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.open, name)
		a.mu.Unlock()
		if tries == 1 {
			w.Give(size, took)
		}
	}()
	ask := func() {
		if tries++; tries == 2 { // which of them is answered is not known
			w.Give(size, 0)
		}
		_ = a.Conn.PublishMsg(&nats.Msg{Subject: subject, Reply: a.inbox + name, Data: data})
	}
	ask()
	due := time.NewTimer(askPatience)
	defer due.Stop()
	for {
		select {
		case answer = <-answers:
			if len(answer) > 0 {
				took = time.Since(began)
				return answer
			}
			due.Reset(gonePause)
		case <-due.C:
			ask()
			due.Reset(askPatience)
		case <-ctx.Done():
			return nil
		case <-a.closed:
			return nil
		}
	}
}

// again has all questions asked again.
func (a *Asker) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answers := range a.open {
		give(answers, nil)
	}
}

// give gives a question its answer or, so that it is asked again, an empty one. Its caller holds mu.
func give(answers chan []byte, answer []byte) {
	if len(answer) > 0 {
		select {
		case <-answers: // unless its question has just taken it
		default:
		}
	}
	select {
	case answers <- answer:
	default:
	}
}

// answered takes an answer, or the server's that nobody is there, which is empty.
func (a *Asker) answered(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard++
	if answers := a.open[strings.TrimPrefix(m.Subject, a.inbox)]; answers != nil {
		give(answers, m.Data)
	}
}

// Answer answers a message, unless its sender would have that go to where only this process may send: then
// the answer would do harm there.
func Answer(m *nats.Msg, data []byte) {
	if !strings.HasPrefix(m.Reply, "crew.") && !strings.HasPrefix(m.Reply, "$") {
		_ = m.Respond(data) // what is not answered comes again
	}
}
