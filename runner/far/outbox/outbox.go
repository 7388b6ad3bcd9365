// Package outbox sends messages to who subscribes to their subjects, each again and again until it
// is answered. Who gets a message twice drops it. While a message of a subject is under way, those
// that come after it wait, and then go in one: so a slow connection carries few messages, each of
// much.
package outbox

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"crew/runner/decide/task"
)

const (
	mostBytes   = 32 << 20 // that wait for an answer
	messageSize = 1 << 10  // counted for a message beside its data
	mostBatches = 4        // of one subject that are under way at once
)

// Outbox sends what it is given, several messages of a subject one behind the other in one. It is safe
// for concurrent use.
type Outbox struct {
	asker  *Asker
	window *Window // of what is under way

	mu      sync.Mutex
	settled sync.Cond         // less is unanswered
	queues  map[string]*queue // by subject; those with messages or senders
	count   int               // messages that are not answered, or whose owners do not know it yet
	bytes   int               // of these
}

// message waits for its answer.
type message struct {
	data []byte
	done func() // it is answered; called once
}

// queue queues the messages of one subject.
type queue struct {
	ctx      context.Context
	drop     context.CancelFunc
	messages []message // not sent yet
	size     int       // their bytes
	senders  int       // goroutines that send them
}

// New returns an Outbox that asks for its answers.
func New(asker *Asker, waits *Waits) *Outbox {
	o := &Outbox{asker: asker, queues: map[string]*queue{}, window: NewWindow()}
	o.settled.L = &o.mu
	waits.On(o.unanswered)
	return o
}

// unanswered says what has not been answered for some time. See Wait.
func (o *Outbox) unanswered(since time.Duration) (heard int64, text string) {
	o.asker.mu.Lock()
	heard = o.asker.heard
	o.asker.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count > 0 {
		text = fmt.Sprintf("waiting for an answer to %s for %v: the connection is slow, or the other side stands still", task.Count(int64(o.count), "message"), since)
	}
	return heard, text
}

// Wait blocks while too much is unanswered.
func (o *Outbox) Wait() { o.await(func() bool { return o.bytes < mostBytes }) }

// Flush blocks until everything is answered and all owners know it.
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
	for subject, q := range o.queues {
		if which(subject) {
			q.drop()
			o.settle(q.messages)
			q.messages = nil
			delete(o.queues, subject)
		}
	}
}

// Send sends a message, and has a goroutine call done when it is answered. It drops the message if the
// connection is closed.
func (o *Outbox) Send(subject string, data []byte, done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[subject]
	if q == nil {
		q = &queue{}
		q.ctx, q.drop = context.WithCancel(context.Background())
		o.queues[subject] = q
	}
	q.messages = append(q.messages, message{data, done})
	q.size += len(data)
	o.count++
	o.bytes += len(data) + messageSize
	if q.senders == 0 || q.senders < mostBatches && q.size >= Piece {
		q.senders++
		go o.send(subject, q)
	}
}

// send sends the messages of a queue until there is none left. Before each batch, goroutines that can run
// do, as these may be about to send more: what ends at the same time goes in one.
func (o *Outbox) send(subject string, q *queue) {
	var batch []message
	for {
		runtime.Gosched()
		o.mu.Lock()
		if o.settle(batch); len(q.messages) == 0 {
			break
		}
		data := make([]byte, 0, min(q.size, Piece))
		k := 0
		for ; k < len(q.messages) && (k == 0 || len(data)+len(q.messages[k].data) <= Piece); k++ {
			data = append(data, q.messages[k].data...)
		}
		batch = q.messages[:k:k]
		q.messages, q.size = q.messages[k:], q.size-len(data)
		o.mu.Unlock()
		if o.window.Take(q.ctx, len(data)) == nil && o.asker.Ask(q.ctx, o.window, len(data), subject, data) != nil {
			for _, n := range batch {
				n.done()
			}
		}
	}
	if q.senders--; q.senders == 0 && o.queues[subject] == q {
		delete(o.queues, subject)
	}
	o.mu.Unlock()
}
