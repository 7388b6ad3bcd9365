// Package outbox publishes messages to the streams of NATS, each again and again until the
// stream has it. The stream drops what it gets twice. While a message of a subject is under
// way, those that come after it wait, and then go in one: so a slow disk of the server has
// few writes, each of much.
//
// PublishAsync sends no bundles: with 200 bytes a message, a server that syncs each, and 1,
// 4, 32 and 1,000 of them on their way, it stored 2,300, 1,600, 3,300 and 2,900 a second, this
// 2,400, 4,400, 30,000 and 210,000, for a sixth of the CPU time there from 32 on.
package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
)

const (
	mostBytes   = 32 << 20               // that wait for the stream's confirmation
	messageSize = 1 << 10                // counted for a message beside its data
	mostBatches = 4                      // of one subject that are under way at once
	ackPatience = 5 * time.Second        // after which a message without an answer is sent again
	errorPause  = 200 * time.Millisecond // after which a refused message is sent again
)

// CodeFull is the server's error code for a message that exceeds a limit of a stream.
const CodeFull = 10077

// Config says what an Outbox sends.
type Config struct {
	Bundle func(messages [][]byte) []byte // makes one message of several, of a Piece together
	Say    func(text string)              // is told what goes wrong, maybe again and again
	Waits  *Waits
}

// Outbox publishes what it is given. It is safe for concurrent use.
type Outbox struct {
	cfg   Config
	nc    *nats.Conn
	inbox string // subjects of answers are this and a number
	wait  *Wait  // for the batches that are pending

	mu      sync.Mutex
	changed sync.Cond // less is pending
	pending map[uint64]*batch
	queues  map[string]*subjectQueue // by subject; those with messages or batches
	window  *Window                  // of what is pending
	line    []string                 // subjects of queues that are due, and wait for room in it
	last    uint64
	bytes   int  // of messages that are not confirmed
	telling int  // batches that are confirmed and whose senders do not all know it yet
	posting bool // soon
}

// message waits to be in a stream.
type message struct {
	id   string
	data []byte
	done func() // the stream has it; called once by the goroutine of the answers
}

// subjectQueue queues the messages of one subject.
type subjectQueue struct {
	messages []message // not sent yet
	size     int       // their bytes
	inFlight int       // batches
	waiting  bool      // in line
}

// batch holds one message or more that go to the stream as one, which has not confirmed it yet.
type batch struct {
	subject  string
	queue    *subjectQueue
	messages []message
	size     int // their bytes
	msg      *nats.Msg
	began    time.Time
	next     time.Time
	open     int // tries that nobody has answered; with none, the stream certainly does not have it
}

// New returns an Outbox of a connection.
func New(nc *nats.Conn, cfg Config) (*Outbox, error) {
	o := &Outbox{cfg: cfg, nc: nc, inbox: nc.NewInbox() + ".", pending: map[uint64]*batch{}, queues: map[string]*subjectQueue{}, window: NewWindow()}
	o.changed.L = &o.mu
	o.wait = cfg.Waits.On(o.unconfirmed)
	_, err := nc.Subscribe(o.inbox+"*", o.answered)
	return o, err
}

// unconfirmed says what has not been confirmed for some time.
func (o *Outbox) unconfirmed(_ int64, since time.Duration) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, l := range o.pending {
		n += len(l.messages)
	}
	for _, l := range o.queues {
		n += len(l.messages)
	}
	return fmt.Sprintf("waiting for the hub to confirm %s for %v: the connection is slow, or the hub's disk is full: "+
		"then make room there and start it again", task.Count(int64(n), "message"), since)
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
func (o *Outbox) remove(n uint64, took time.Duration) {
	l := o.pending[n]
	delete(o.pending, n)
	o.wait.Add(-1, 0)
	l.queue.inFlight--
	o.window.Give(l.size, took)
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

// Send publishes a message, which the stream knows by id, and calls done when it is
// confirmed. It drops the message if the connection is closed.
func (o *Outbox) Send(subject, id string, data []byte, done func()) {
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
	o.add(l, message{id, data, done})
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
	x := &batch{subject: subject, queue: l, messages: l.messages[:k:k], size: size, began: now, next: now.Add(ackPatience), open: 1}
	l.messages, l.size, l.inFlight = l.messages[k:], l.size-size, l.inFlight+1
	o.last++
	o.pending[o.last] = x
	o.wait.Add(1, 0)
	id, data := x.messages[0].id, x.messages[0].data
	if k > 1 {
		all := make([][]byte, k)
		for i := range all {
			all[i] = x.messages[i].data
		}
		id, data = id+"+"+strconv.Itoa(k-1), o.cfg.Bundle(all)
	}
	x.msg = &nats.Msg{
		Subject: subject, Reply: o.inbox + strconv.FormatUint(o.last, 36), Data: data, Header: nats.Header{nats.MsgIdHdr: {id}},
	}
	return x.msg
}

func (o *Outbox) publish(msgs []*nats.Msg) {
	for _, m := range msgs {
		_ = o.nc.PublishMsg(m) // or else at the next reconnection
	}
}

// Withdraw takes back a message that the stream certainly does not have.
func (o *Outbox) Withdraw(subject, id string) bool {
	o.mu.Lock()
	l := o.queues[subject]
	found := l != nil && o.takeBack(l, id)
	if found && l.inFlight == 0 && len(l.messages) == 0 {
		delete(o.queues, subject)
	} else if found {
		o.queues[subject] = l // from which the last batch has gone
		o.enqueue(subject, l)
	}
	msgs := o.post() // what waited for the batch that has gone
	o.mu.Unlock()
	o.publish(msgs)
	return found
}

// takeBack takes a message off a queue, or off a batch of which every try was refused, whose
// other messages wait again. Its caller holds mu.
func (o *Outbox) takeBack(l *subjectQueue, id string) bool {
	named := func(n message) bool { return n.id == id }
	if i := slices.IndexFunc(l.messages, named); i >= 0 {
		o.settle(l.messages[i : i+1])
		l.size -= len(l.messages[i].data)
		l.messages = slices.Delete(l.messages, i, i+1)
		return true
	}
	for n, x := range o.pending {
		if x.queue != l || x.open > 0 || !slices.ContainsFunc(x.messages, named) {
			continue
		}
		o.remove(n, 0) // the others go in another batch
		for _, y := range x.messages {
			if y.id != id {
				o.add(l, y)
			}
		}
		return true
	}
	return false
}

// Again publishes what is pending and due; all of it if everything is.
func (o *Outbox) Again(everything bool) {
	now := time.Now()
	var list []*nats.Msg
	o.mu.Lock()
	for _, l := range o.pending {
		if everything || !now.Before(l.next) {
			l.open++
			l.next = now.Add(ackPatience)
			list = append(list, l.msg)
		}
	}
	o.mu.Unlock()
	o.publish(list)
}

var errorMark = []byte(`"error":`)

// answered takes a stream's answer.
func (o *Outbox) answered(m *nats.Msg) {
	n, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, o.inbox), 36, 64)
	if err != nil {
		return
	}
	bad := len(m.Data) == 0 || bytes.Contains(m.Data, errorMark) // without data: nobody has the stream
	o.mu.Lock()
	l := o.pending[n]
	if l == nil {
		o.mu.Unlock()
		return
	}
	if bad {
		l.next, l.open = time.Now().Add(errorPause), l.open-1
		o.mu.Unlock()
		o.wait.Add(0, 0)
		o.cfg.Say(refusal(m.Data))
		return
	}
	took := time.Duration(0)
	if l.open == 1 { // or else it is not known which try is answered
		took = time.Since(l.began)
	}
	o.remove(n, took)
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

// refusal says why a stream takes no message.
func refusal(answer []byte) string {
	var a struct {
		Error struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	switch _ = json.Unmarshal(answer, &a); a.Error.Code {
	case 0:
		return "the engine cannot store messages now: trying again"
	case CodeFull:
		return "a stream of the engine is full: waiting until there is room"
	}
	return "the engine does not store a message: " + a.Error.Description + ": trying again"
}
