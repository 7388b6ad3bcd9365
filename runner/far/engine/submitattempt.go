package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

// orderAfter is after which time an order is sent again if the attempt has not ended.
const orderAfter = time.Second

// flights are the attempts that are to go to workers, that workers have, and whose results workers keep
// until they are on record. As a sink they see what is. Their messages go by out.
type attemptTable struct {
	out    *outbox.Outbox
	nc     *nats.Conn
	forget func(t *task.Task) // a task has finished

	sending sync.Mutex // held to send to a worker, and to drop that; not while mu is

	mu      sync.Mutex
	byKey   map[attemptKey]*pendingAttempt
	queues  map[int][]*pendingAttempt   // by slot: those to be sent, in order
	earlier map[[16]byte][]earlierFinal // results of earlier epochs, by the identity of their tasks
}

// attemptKey names an attempt within an epoch.
type attemptKey struct {
	task   uint64
	number int
}

// flight is an attempt from when it is to go to a worker.
type pendingAttempt struct {
	attempt task.Attempt
	id      ID            // of an earlier epoch if its result was taken from there
	turn    chan struct{} // closed once those before it in its slot were sent
	done    chan *Final   // gets one
	body    travel.Blob   // its message, if that is long
	inputs  []travel.File // that its task takes
	out     outputs

	// under flights.mu

	token     Token
	worker    *remoteWorker // nil before it has one
	delivered bool          // its worker has it
	kept      bool          // it has ended, and its worker keeps the result until it is told not to
	order     string        // the latest order; "" for none
	orderSent time.Time     // when that was sent
}

func keyOfAttempt(a task.Attempt) attemptKey { return attemptKey{a.Task.ID, a.Number} }

// open returns the flight of an attempt, behind those of its slot that are to be sent.
func (tab *attemptTable) add(a task.Attempt) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	p := tab.byKey[keyOfAttempt(a)]
	if p == nil {
		p = &pendingAttempt{attempt: a, turn: make(chan struct{}), done: make(chan *Final, 1)}
		tab.byKey[keyOfAttempt(a)] = p
		line := append(tab.queues[a.Slot.ID], p)
		if tab.queues[a.Slot.ID] = line; len(line) == 1 {
			close(p.turn)
		}
	}
	return p
}

// sent notes that a flight has been sent, or will not be.
func (tab *attemptTable) dequeue(p *pendingAttempt) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	slot := p.attempt.Slot.ID
	i := slices.Index(tab.queues[slot], p)
	line := slices.Delete(tab.queues[slot], i, i+1)
	if tab.queues[slot] = line; i == 0 && len(line) > 0 {
		close(line[0].turn)
	}
}

// find returns the flight of an attempt, or nil.
func (tab *attemptTable) find(key attemptKey) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return tab.byKey[key]
}

// of returns the flights for which which holds, which is called with mu held.
func (tab *attemptTable) filter(which func(*pendingAttempt) bool) (list []*pendingAttempt) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, p := range tab.byKey {
		if which(p) {
			list = append(list, p)
		}
	}
	return list
}

// running returns the flight of a task that a worker has, or nil.
func (tab *attemptTable) running(id uint64) *pendingAttempt {
	for _, p := range tab.filter(func(p *pendingAttempt) bool { return p.attempt.Task.ID == id && p.worker != nil && !p.kept }) {
		return p
	}
	return nil
}

// awaited returns the flight that a result with this token belongs to, or nil. It must come from
// the worker that was given the attempt.
func (tab *attemptTable) match(from string, id ID, t Token) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if p := tab.byKey[attemptKey{id.Task, id.Number}]; p != nil && p.worker != nil && p.id == id && p.worker.id == from && p.token == t {
		return p
	}
	return nil
}

// land notes that a flight has ended, and whether its worker keeps the result: until that is on record, or
// if wait is not set until now.
func (tab *attemptTable) finish(p *pendingAttempt, kept, wait bool) {
	tab.mu.Lock()
	p.kept, p.order = kept, ""
	tab.mu.Unlock()
	if !kept || !wait {
		tab.remove(keyOfAttempt(p.attempt))
	}
}

// order sends an order about a flight, again and again until that ends.
func (tab *attemptTable) order(p *pendingAttempt, op string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if op == opKill || p.order == "" || p.order == opReturn {
		p.order = op
	}
	tab.sendOrderLocked(p)
}

// arrive notes that the worker of a flight has it, and sends what was ordered meanwhile.
func (tab *attemptTable) markDelivered(p *pendingAttempt) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	p.delivered = true
	tab.sendOrderLocked(p)
}

// sendOrder sends the order about a flight, if there is one and its worker has it. Its caller holds mu.
func (tab *attemptTable) sendOrderLocked(p *pendingAttempt) {
	if p.delivered && p.order != "" {
		p.orderSent = time.Now()
		go tab.nc.Publish(p.worker.orders, Order{Op: p.order, ID: p.id}.encode()) // it may wait; repeat tries again
	}
}

// repeat sends orders again that may not have arrived.
func (tab *attemptTable) repeatOrders(now time.Time) {
	tab.filter(func(p *pendingAttempt) bool {
		if now.Sub(p.orderSent) >= orderAfter {
			tab.sendOrderLocked(p)
		}
		return false
	})
}

// Consume sees which attempts are on record. See runner.Sink.
func (tab *attemptTable) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished || e.Kind == task.Retried {
			tab.remove(attemptKey{e.ID, e.Attempt})
			if e.Kind == task.Finished && e.Task != nil {
				tab.forget(e.Task)
			}
		}
	}
	return nil
}

// remove forgets a flight, and has its worker not keep the result any more.
func (tab *attemptTable) remove(key attemptKey) {
	tab.mu.Lock()
	p := tab.byKey[key]
	delete(tab.byKey, key)
	tab.mu.Unlock()
	if p != nil && p.kept {
		tab.releaseResult(p.worker, p.id)
	}
}

// settle tells a worker that a result is on record.
func (tab *attemptTable) releaseResult(w *remoteWorker, id ID) {
	tab.send(w, encode(kindRecorded, &id), func() {})
}

// send sends a message to a worker, unless that is lost. there is called when it has arrived.
func (tab *attemptTable) send(w *remoteWorker, msg []byte, there func()) {
	tab.sending.Lock()
	defer tab.sending.Unlock()
	if w.ctx.Err() == nil {
		tab.out.Send(w.tasks, msg, there)
	}
}

// drop drops what was sent to a worker that is lost: one that comes has its name, if it was not.
func (tab *attemptTable) dropMessages(w *remoteWorker) {
	tab.sending.Lock()
	defer tab.sending.Unlock()
	tab.out.Drop(func(subject string) bool { return subject == w.tasks })
}

// Close does nothing. See runner.Sink.
func (tab *attemptTable) Close(task.Stats) error { return nil }
