// Package outbox sends messages to the subscribers of their subjects, and repeats each message until it
// is answered. Receivers drop messages that they have seen before. Messages of a subject that come
// within a few milliseconds, or while several are unanswered, are sent together.
package outbox

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	maxBatches = 4 // batches of one subject that may be in transit at once

	// While a batch is unanswered, the next one is sent after this pause: a slow connection must not be
	// idle until the answer comes.
	batchEvery = 5 * time.Millisecond
)

// Outbox sends messages, and combines messages of the same subject. It is safe for concurrent use.
type Outbox struct {
	requester *Requester
	window    *Window // limits the bytes in transit

	mu      sync.Mutex
	settled sync.Cond         // signals that count has decreased
	queues  map[string]*queue // by subject; only queues with messages or senders
	count   int               // messages that are not answered, or whose done has not returned
}

// message is a message that waits for its answer.
type message struct {
	data []byte
	done func() // called once, when it is answered
}

// queue holds the messages of one subject.
type queue struct {
	ctx      context.Context
	messages []message // not sent yet
	size     int       // bytes in messages
	senders  int       // goroutines that send messages
	sent     time.Time // when the latest batch was taken from messages
}

// New returns an Outbox that sends its messages through requester.
func New(requester *Requester) *Outbox {
	o := &Outbox{requester: requester, queues: map[string]*queue{}, window: NewWindow()}
	o.settled.L = &o.mu
	return o
}

// Flush blocks until everything is answered and every call of done has returned.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.count > 0 {
		o.settled.Wait()
	}
}

// settleLocked removes n messages from the count. The caller must hold mu.
func (o *Outbox) settleLocked(n int) {
	o.count -= n
	o.settled.Broadcast()
}

// Send sends a message. A goroutine calls done when it is answered. If ctx is done before, or the
// connection is closed, the message is dropped, and done is not called. As long as ctx is not done, it
// must be the same for all messages of a subject.
func (o *Outbox) Send(ctx context.Context, subject string, data []byte, done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[subject]
	if q == nil || q.ctx.Err() != nil {
		q = &queue{ctx: ctx}
		o.queues[subject] = q
	}
	q.messages = append(q.messages, message{data, done})
	q.size += len(data)
	o.count++
	if q.senders == 0 || q.senders < maxBatches && (q.size >= Piece || time.Since(q.sent) >= batchEvery) {
		q.senders++
		go o.send(subject, q)
	}
}

// send sends the messages of a queue until none are left. Before each batch it lets other goroutines
// run, because they may be about to send more: results of tasks that end at the same time then go in
// one batch.
func (o *Outbox) send(subject string, q *queue) {
	var batch []message
	for {
		runtime.Gosched()
		o.mu.Lock()
		if o.settleLocked(len(batch)); len(q.messages) == 0 {
			break
		}
		data := make([]byte, 0, min(q.size, Piece))
		k := 0
		for ; k < len(q.messages) && (k == 0 || len(data)+len(q.messages[k].data) <= Piece); k++ {
			data = append(data, q.messages[k].data...)
		}
		batch, q.sent = q.messages[:k:k], time.Now()
		q.messages, q.size = q.messages[k:], q.size-len(data)
		o.mu.Unlock()
		if o.window.Acquire(q.ctx, len(data)) == nil && o.requester.Request(q.ctx, o.window, len(data), subject, data) != nil {
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
