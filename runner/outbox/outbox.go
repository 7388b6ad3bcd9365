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

// Config says what an Outbox sends.
type Config struct {
	Bundle func(messages [][]byte) []byte // makes one message of several, of a Piece together
	Waits  *Waits
}

// Outbox sends what it is given. It is safe for concurrent use.
type Outbox struct {
	cfg   Config
	nc    *nats.Conn
	inbox string // subjects of answers are this and a name
	wait  *Wait  // for the batches that are pending

	mu      sync.Mutex
	changed sync.Cond                // less is pending
	pending map[string]*batch        // by the names of their answers, which nobody can guess
	queues  map[string]*subjectQueue // by subject; those with messages or batches
	window  *Window                  // of what is pending
	line    []string                 // subjects of queues that are due, and wait for room in it
	bytes   int                      // of messages that are not answered
	telling int                      // batches that are answered and whose senders do not all know it yet
	posting bool                     // soon
}

// message waits for its answer.
type message struct {
	data []byte
	done func() // it is answered; called once by the goroutine of the answers
}

// subjectQueue queues the messages of one subject.
type subjectQueue struct {
	messages []message // not sent yet
	size     int       // their bytes
	inFlight int       // batches
	waiting  bool      // in line
}

// batch holds one message or more that go as one.
type batch struct {
	subject  string
	queue    *subjectQueue
	messages []message
	size     int // their bytes
	msg      *nats.Msg
	began    time.Time
	next     time.Time // when it is sent again
	again    bool      // it was: others have its room in the window, and it is not known which try is answered
}

// New returns an Outbox of a connection.
func New(nc *nats.Conn, cfg Config) (*Outbox, error) {
	o := &Outbox{cfg: cfg, nc: nc, inbox: nc.NewInbox() + ".", pending: map[string]*batch{}, queues: map[string]*subjectQueue{}, window: NewWindow()}
	o.changed.L = &o.mu
	o.wait = cfg.Waits.On(o.unanswered)
	_, err := nc.Subscribe(o.inbox+"*", o.answered)
	return o, err
}

// unanswered says what has not been answered for some time.
func (o *Outbox) unanswered(_ int64, since time.Duration) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, l := range o.pending {
		n += len(l.messages)
	}
	for _, l := range o.queues {
		n += len(l.messages)
	}
	return fmt.Sprintf("waiting for an answer to %s for %v: the connection is slow, or the other side stands still", task.Count(int64(n), "message"), since)
}

// Wait blocks while too much is pending.
func (o *Outbox) Wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes >= mostBytes {
		o.changed.Wait()
	}
}

// Drop forgets what is pending for some subjects.
func (o *Outbox) Drop(which func(subject string) bool) {
	o.mu.Lock()
	for n, l := range o.pending {
		if which(l.subject) {
			o.remove(n, 0)
		}
	}
	for subject, l := range o.queues {
		if which(subject) {
			o.settle(l.messages)
			delete(o.queues, subject)
		}
	}
	msgs := o.post()
	o.mu.Unlock()
	o.publish(msgs)
}

// remove takes a batch off. For took see Window.Give. Its caller holds mu.
func (o *Outbox) remove(n string, took time.Duration) {
	l := o.pending[n]
	delete(o.pending, n)
	o.wait.Add(-1, 0)
	if l.queue.inFlight--; !l.again {
		o.window.Give(l.size, took)
	}
	if q := l.queue; q.inFlight == 0 && len(q.messages) == 0 && o.queues[l.subject] == q {
		delete(o.queues, l.subject)
	}
	o.settle(l.messages)
}

// settle counts messages no more. Its caller holds mu.
func (o *Outbox) settle(messages []message) {
	for _, n := range messages {
		o.bytes -= len(n.data) + messageSize
	}
	o.changed.Broadcast()
}

// Flush blocks until nothing is pending and all senders know it.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.posting || len(o.pending) > 0 || o.telling > 0 {
		o.changed.Wait()
	}
}

// Send sends a message, and calls done when it is answered. It drops the message if the connection
// is closed.
func (o *Outbox) Send(subject string, data []byte, done func()) {
	o.mu.Lock()
	if o.nc.IsClosed() {
		o.mu.Unlock()
		return
	}
	l := o.queues[subject]
	if l == nil {
		l = &subjectQueue{}
		o.queues[subject] = l
	}
	o.add(l, message{data, done})
	soon := o.enqueue(subject, l) && !o.posting
	o.posting = o.posting || soon
	o.mu.Unlock()
	if soon {
		go o.postSoon()
	}
}

// postSoon posts what there is once goroutines that can run have, as these may be about to
// send more: what ends at the same time goes in one batch.
func (o *Outbox) postSoon() {
	runtime.Gosched()
	o.mu.Lock()
	o.posting = false
	msgs := o.post()
	o.changed.Broadcast()
	o.mu.Unlock()
	o.publish(msgs)
}

// add puts a message into a queue. Its caller holds mu.
func (o *Outbox) add(l *subjectQueue, n message) {
	l.messages = append(l.messages, n)
	l.size += len(n.data)
	o.bytes += len(n.data) + messageSize
}

// due reports whether a batch may go now.
func (l *subjectQueue) due() bool {
	return len(l.messages) > 0 && (l.inFlight == 0 || l.inFlight < mostBatches && l.size >= Piece)
}

// enqueue has a batch of a queue go in its turn. It returns false if it has to wait for others of
// its subject, or waits already. Its caller holds mu.
func (o *Outbox) enqueue(subject string, l *subjectQueue) bool {
	if l.waiting || !l.due() {
		return false
	}
	l.waiting, o.line = true, append(o.line, subject)
	return true
}

// post makes batches of the messages of the queues in line, as many as the window has room for.
// Its caller holds mu.
func (o *Outbox) post() (msgs []*nats.Msg) {
	for ; len(o.line) > 0; o.line = o.line[1:] {
		subject := o.line[0]
		l := o.queues[subject]
		if l == nil {
			continue
		}
		if l.due() {
			m := o.batch(subject, l)
			if m == nil {
				return msgs
			}
			msgs = append(msgs, m)
		}
		l.waiting = false
		o.enqueue(subject, l)
	}
	return msgs
}

// batch makes a batch, or returns nil if there is no room for it. Its caller holds mu.
func (o *Outbox) batch(subject string, l *subjectQueue) *nats.Msg {
	k, size := 1, len(l.messages[0].data)
	for ; k < len(l.messages) && size+len(l.messages[k].data) <= Piece; k++ {
		size += len(l.messages[k].data)
	}
	if !o.window.Try(size) {
		return nil
	}
	now := time.Now()
	x := &batch{subject: subject, queue: l, messages: l.messages[:k:k], size: size, began: now, next: now.Add(ackPatience)}
	l.messages, l.size, l.inFlight = l.messages[k:], l.size-size, l.inFlight+1
	name := rand.Text()
	o.pending[name] = x
	o.wait.Add(1, 0)
	data := x.messages[0].data
	if k > 1 {
		all := make([][]byte, k)
		for i := range all {
			all[i] = x.messages[i].data
		}
		data = o.cfg.Bundle(all)
	}
	x.msg = &nats.Msg{Subject: subject, Reply: o.inbox + name, Data: data}
	return x.msg
}

func (o *Outbox) publish(msgs []*nats.Msg) {
	for _, m := range msgs {
		_ = o.nc.PublishMsg(m) // or else at the next reconnection
	}
}

// Again publishes what is pending and due; all of it if everything is.
func (o *Outbox) Again(everything bool) {
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
		}
	}
	list = append(list, o.post()...)
	o.mu.Unlock()
	o.publish(list)
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
	n := strings.TrimPrefix(m.Subject, o.inbox)
	o.mu.Lock()
	l := o.pending[n]
	if l == nil {
		o.mu.Unlock()
		return
	}
	if len(m.Data) == 0 {
		l.next = time.Now().Add(gonePause)
		o.mu.Unlock()
		o.wait.Add(0, 0)
		return
	}
	o.remove(n, time.Since(l.began))
	o.telling++
	o.enqueue(l.subject, l.queue)
	msgs := o.post()
	o.mu.Unlock()
	o.publish(msgs)
	for _, n := range l.messages {
		n.done()
	}
	o.mu.Lock()
	o.telling--
	o.changed.Broadcast()
	o.mu.Unlock()
}
