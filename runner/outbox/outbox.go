// Package outbox sends messages to who subscribes to their subjects, each again and again until it
// is answered. Who gets a message twice drops it. While a message of a subject is under way, those
// that come after it wait, and then go in one: so a slow connection carries few messages, each of
// much.
package outbox

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
)

const (
	mostBytes   = 32 << 20               // that wait for an answer
	messageSize = 1 << 10                // counted for a message beside its data
	mostBatches = 4                      // of one subject that are under way at once
	ackPatience = 5 * time.Second        // after which a message without an answer is sent again
	gonePause   = 200 * time.Millisecond // after which a message is sent again that nobody was there for
)

// Outbox sends what it is given, several messages of a subject one behind the other in one. It is safe
// for concurrent use.
type Outbox struct {
	nc    *nats.Conn
	inbox string        // subjects of answers are this and a name
	due   chan struct{} // the goroutine that publishes is to look at line

	mu      sync.Mutex
	settled sync.Cond         // less is unanswered
	pending map[string]*batch // by the names of their answers, which nobody can guess
	queues  map[string]*queue // by subject; those with messages or batches
	window  *Window           // of what is pending
	line    []*queue          // that are due, and wait for room in it
	count   int               // messages that are not answered, or whose senders do not know it yet
	bytes   int               // of these
	answers int64             // so far
}

// message waits for its answer.
type message struct {
	data []byte
	done func() // it is answered; called once by the goroutine of the answers
}

// queue queues the messages of one subject.
type queue struct {
	subject  string
	messages []message // not sent yet
	size     int       // their bytes
	inFlight int       // batches
	inLine   bool
}

// batch holds one message or more that go as one.
type batch struct {
	queue    *queue
	messages []message
	size     int // their bytes
	msg      *nats.Msg
	began    time.Time
	next     time.Time // when it is sent again
	again    bool      // it was: others have its room in the window, and it is not known which try is answered
}

// New returns an Outbox of a connection, whose goroutine ends when that is closed.
func New(nc *nats.Conn, waits *Waits) (*Outbox, error) {
	o := &Outbox{
		nc: nc, inbox: nc.NewInbox() + ".", due: make(chan struct{}, 1),
		pending: map[string]*batch{}, queues: map[string]*queue{}, window: NewWindow(),
	}
	o.settled.L = &o.mu
	waits.On(o.unanswered)
	status := nc.StatusChanged(nats.CLOSED, nats.CONNECTED)
	_, err := nc.Subscribe(o.inbox+"*", o.answered)
	if err == nil {
		go o.publish(status)
	}
	return o, err
}

// unanswered says what has not been answered for some time. See Wait.
func (o *Outbox) unanswered(since time.Duration) (int64, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) == 0 {
		return o.answers, ""
	}
	return o.answers, fmt.Sprintf("waiting for an answer to %s for %v: the connection is slow, or the other side stands still", task.Count(int64(o.count), "message"), since)
}

// Wait blocks while too much is unanswered.
func (o *Outbox) Wait() { o.await(func() bool { return o.bytes < mostBytes }) }

// Flush blocks until everything is answered and all senders know it.
func (o *Outbox) Flush() { o.await(func() bool { return o.count == 0 }) }

func (o *Outbox) await(done func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !done() {
		o.settled.Wait()
	}
}

// settle counts messages no more. Its caller holds mu.
func (o *Outbox) settle(messages []message) {
	o.count -= len(messages)
	for _, n := range messages {
		o.bytes -= len(n.data) + messageSize
	}
	o.settled.Broadcast()
}

// Drop forgets what is not answered on some subjects.
func (o *Outbox) Drop(which func(subject string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, l := range o.pending {
		if which(l.queue.subject) {
			o.remove(n, 0)
			o.settle(l.messages)
		}
	}
	for subject, q := range o.queues {
		if which(subject) {
			o.settle(q.messages)
			q.messages = nil
			delete(o.queues, subject)
		}
	}
}

// remove takes a batch off. For took see Window.Give. Its caller holds mu.
func (o *Outbox) remove(name string, took time.Duration) {
	l := o.pending[name]
	delete(o.pending, name)
	o.answers++
	if !l.again {
		o.window.Give(l.size, took)
	}
	q := l.queue
	if q.inFlight--; q.inFlight == 0 && len(q.messages) == 0 {
		delete(o.queues, q.subject)
	}
	o.enqueue(q)
}

// Send sends a message, and calls done when it is answered. It drops the message if the connection
// is closed.
func (o *Outbox) Send(subject string, data []byte, done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nc.IsClosed() {
		return
	}
	q := o.queues[subject]
	if q == nil {
		q = &queue{subject: subject}
		o.queues[subject] = q
	}
	q.messages = append(q.messages, message{data, done})
	q.size += len(data)
	o.count++
	o.bytes += len(data) + messageSize
	o.enqueue(q)
}

// enqueue has a batch of a queue go in its turn if it need not wait for others of its subject, and
// those that wait for room be looked at. Its caller holds mu.
func (o *Outbox) enqueue(q *queue) {
	if !q.inLine && len(q.messages) > 0 && (q.inFlight == 0 || q.inFlight < mostBatches && q.size >= Piece) {
		q.inLine, o.line = true, append(o.line, q)
	}
	if len(o.line) > 0 {
		select {
		case o.due <- struct{}{}:
		default:
		}
	}
}

// publish publishes what is due, once goroutines that can run have, as these may be about to send more:
// what ends at the same time goes in one batch. A new connection gets everything again.
func (o *Outbox) publish(status <-chan nats.Status) {
	look := time.NewTicker(gonePause)
	defer look.Stop()
	for {
		select {
		case is := <-status:
			if is == nats.CLOSED {
				return
			}
			o.again(true)
		case <-look.C:
			o.again(false)
		case <-o.due:
		}
		runtime.Gosched()
		for m := o.next(); m != nil; m = o.next() {
			_ = o.nc.PublishMsg(m) // or else at the next reconnection
		}
	}
}

// next makes a batch of the messages of the first queue in line, or returns nil if the window has no
// room for it.
func (o *Outbox) next() *nats.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.line) > 0 {
		q, k, size := o.line[0], 0, 0
		for ; k < len(q.messages) && (k == 0 || size+len(q.messages[k].data) <= Piece); k++ {
			size += len(q.messages[k].data)
		}
		if k > 0 && !o.window.Try(size) {
			return nil
		}
		q.inLine, o.line = false, o.line[1:]
		if k == 0 { // it was dropped
			continue
		}
		x := &batch{queue: q, messages: q.messages[:k:k], size: size, began: time.Now()}
		q.messages, q.size, q.inFlight = q.messages[k:], q.size-size, q.inFlight+1
		o.enqueue(q)
		data := make([]byte, 0, size)
		for _, n := range x.messages {
			data = append(data, n.data...)
		}
		name := rand.Text()
		x.msg, x.next = &nats.Msg{Subject: q.subject, Reply: o.inbox + name, Data: data}, x.began.Add(ackPatience)
		o.pending[name] = x
		return x.msg
	}
	return nil
}

// again publishes what is pending and due; all of it if everything is.
func (o *Outbox) again(everything bool) {
	now := time.Now()
	var list []*nats.Msg
	o.mu.Lock()
	for _, l := range o.pending {
		if everything || !now.Before(l.next) {
			if !l.again {
				o.window.Give(l.size, 0)
			}
			l.again, l.next = true, now.Add(ackPatience)
			list = append(list, l.msg)
			o.enqueue(l.queue)
		}
	}
	o.mu.Unlock()
	for _, m := range list {
		_ = o.nc.PublishMsg(m)
	}
}

// Answer answers a message, unless its sender would have that go to where only this process may send: then
// the answer would do harm there.
func Answer(m *nats.Msg, data []byte) {
	if !strings.HasPrefix(m.Reply, "crew.") && !strings.HasPrefix(m.Reply, "$") {
		_ = m.Respond(data) // what is not answered comes again
	}
}

// answered takes an answer, which is not empty, or the server's that nobody is there.
func (o *Outbox) answered(m *nats.Msg) {
	name := strings.TrimPrefix(m.Subject, o.inbox)
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.pending[name]
	switch {
	case l == nil:
	case len(m.Data) == 0:
		l.next = time.Now().Add(gonePause)
		o.answers++
	default:
		o.remove(name, time.Since(l.began))
		o.mu.Unlock()
		for _, n := range l.messages {
			n.done()
		}
		o.mu.Lock()
		o.settle(l.messages)
	}
}
