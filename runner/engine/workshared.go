package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// fetchWait is the life of a request for tasks that any worker may run.
	fetchWait = 5 * time.Second
	// mostDeliveries limits how often such a task is given to a worker.
	mostDeliveries = 5
	sharedPrefix   = "any-" // and the queue: the name of their consumer
)

var errPoison = errors.New("its workers were lost, again and again")

// takeShared takes tasks that any worker of the queue may run, as slots are free.
func (w *crewWorker) takeShared() {
	var c jetstream.Consumer
	for {
		w.mu.Lock()
		t := w.lease
		room := w.room()
		w.mu.Unlock()
		if t != nil && room > 0 && w.s.nc.IsConnected() {
			var err error
			if c == nil {
				c, err = w.sharedConsumer()
			}
			if err == nil {
				err = w.fetch(c, t, room)
			}
			if err == nil {
				continue
			}
			c = nil
		}
		select {
		case <-w.over:
			return
		case <-w.freed:
		case <-time.After(fetchWait):
		}
	}
}

// room returns how many more attempts can begin at once. Its caller holds mu.
func (w *crewWorker) room() int {
	if w.state != ready {
		return 0
	}
	n := w.slots
	for _, h := range w.held {
		if !h.ended {
			n--
		}
	}
	return n
}

// sharedConsumer returns the consumer that all workers of the queue share. It waits for
// as long as the longest of their leases before it gives a task to another one.
func (w *crewWorker) sharedConsumer() (jetstream.Consumer, error) {
	name := sharedPrefix + w.work.Queue
	c, err := w.s.js.Consumer(context.Background(), tasksStream, name)
	if err == nil && c.CachedInfo().Config.AckWait >= w.work.TTL || err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	return w.s.js.CreateOrUpdateConsumer(context.Background(), tasksStream, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: taskSubject(w.work.Queue, anyone, ">"),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.work.TTL, MaxDeliver: -1, MaxAckPending: -1,
	})
}

// fetch takes up to n tasks from the consumer that all workers share.
func (w *crewWorker) fetch(c jetstream.Consumer, t *lease, n int) error {
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		w.take(t, m, true)
	}
	return batch.Error()
}

// progress tells the engine that shared tasks are still run, so that it gives them to
// nobody else.
func (w *crewWorker) progress() {
	w.mu.Lock()
	var list []*delivery
	for _, h := range w.held {
		if h.shared && !h.unwanted {
			list = append(list, h.msg)
		}
	}
	w.mu.Unlock()
	for _, m := range list {
		_ = m.InProgress()
	}
}

// giveBack has the engine give a shared attempt to another worker, or to this one later.
func (w *crewWorker) giveBack(h *job) {
	w.mu.Lock()
	msg := w.letGo(h)
	if msg != nil {
		w.seen.remove(h.Token)
	}
	w.mu.Unlock()
	if msg != nil {
		_ = msg.Nak()
	}
}
