package engine

import (
	"sync"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

// attemptTable holds attempts from when they are queued for a worker until their results are recorded.
// As a sink, it sees which results are recorded.
type attemptTable struct {
	out    *outbox.Outbox // sends attempts
	orders *outbox.Outbox // orders wait for no attempt

	mu      sync.Mutex
	byKey   map[attemptKey]*pendingAttempt
	count   uint64                      // attempts sent so far
	sent    map[int]chan struct{}       // by slot: pendingAttempt.sent of the latest attempt
	earlier map[[16]byte][]earlierFinal // results from earlier epochs, by resultIdentity
}

// attemptKey identifies an attempt within an epoch.
type attemptKey struct {
	task   uint64
	number int
}

// pendingAttempt is an attempt from when it is queued for a worker until its result is recorded.
type pendingAttempt struct {
	attempt task.Attempt
	id      ID            // set by assign; of an earlier epoch if the result comes from there
	turn    chan struct{} // closed once the previous attempt of its slot was sent or given up; nil for the first
	sent    chan struct{} // closed once this attempt was, too
	done    chan *Final   // receives the result; holds one
	body    travel.Blob   // its message, if too long to be sent at once
	inputs  []travel.File // files that its task takes
	out     outputs

	// under attemptTable.mu

	token     Token
	worker    *remoteWorker // nil until assigned
	delivered bool          // the worker has confirmed it
	kept      bool          // it has ended, and the worker keeps the result until releaseResult
	order     string        // the latest order; "" for none
}

func keyOfAttempt(a task.Attempt) attemptKey { return attemptKey{a.Task.ID, a.Number} }

// add returns the entry of an attempt. A new entry goes to the end of the queue of its slot.
func (tab *attemptTable) add(a task.Attempt) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	p := tab.byKey[keyOfAttempt(a)]
	if p == nil {
		p = &pendingAttempt{attempt: a, turn: tab.sent[a.Slot.ID], sent: make(chan struct{}), done: make(chan *Final, 1)}
		tab.byKey[keyOfAttempt(a)], tab.sent[a.Slot.ID] = p, p.sent
	}
	return p
}

// find returns the entry of an attempt, or nil.
func (tab *attemptTable) find(key attemptKey) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return tab.byKey[key]
}

// filter returns the attempts that match selects. It calls match with mu held.
func (tab *attemptTable) filter(match func(*pendingAttempt) bool) (list []*pendingAttempt) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, p := range tab.byKey {
		if match(p) {
			list = append(list, p)
		}
	}
	return list
}

// running returns the unfinished attempt of a task that is assigned to a worker, or nil.
func (tab *attemptTable) running(id uint64) *pendingAttempt {
	for _, p := range tab.filter(func(p *pendingAttempt) bool { return p.attempt.Task.ID == id && p.worker != nil && !p.kept }) {
		return p
	}
	return nil
}

// match returns the attempt to which a result with this ID and token belongs, or nil. The result must
// come from the worker of the attempt.
func (tab *attemptTable) match(from string, id ID, t Token) *pendingAttempt {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if p := tab.byKey[attemptKey{id.Task, id.Number}]; p != nil && p.worker != nil && p.id == id && p.worker.id == from && p.token == t {
		return p
	}
	return nil
}

// finish notes that an attempt has ended. kept says whether its worker keeps the result. If wait is
// set, the worker keeps it until it is recorded, and otherwise is told now that it need not.
func (tab *attemptTable) finish(p *pendingAttempt, kept, wait bool) {
	tab.mu.Lock()
	p.kept, p.order = kept, ""
	tab.mu.Unlock()
	if !kept || !wait {
		tab.remove(keyOfAttempt(p.attempt))
	}
}

// order sends an order about an attempt, unless it has sent the same or a stronger one.
func (tab *attemptTable) order(p *pendingAttempt, op string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if op != p.order && (op == opKill || p.order == "" || p.order == opReturn) {
		p.order = op
		tab.sendOrderLocked(p)
	}
}

// markDelivered notes that the worker has an attempt, and sends an order that came before.
func (tab *attemptTable) markDelivered(p *pendingAttempt) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	p.delivered = true
	tab.sendOrderLocked(p)
}

// sendOrderLocked sends the order about an attempt if there is one and the worker has the attempt. The
// caller must hold mu.
func (tab *attemptTable) sendOrderLocked(p *pendingAttempt) {
	if p.delivered && p.order != "" {
		tab.sendOrder(p.worker, p.id, p.order)
	}
}

// sendOrder sends an order about an attempt to its worker.
func (tab *attemptTable) sendOrder(w *remoteWorker, id ID, op string) {
	tab.orders.Send(w.ctx, w.tasks, encode(kindOrder, &AttemptOrder{ID: id, Op: op}), func() {})
}

// Consume removes attempts whose results are recorded. See runner.Sink.
func (tab *attemptTable) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished || e.Kind == task.Retried && !e.Result.Unbegun { // another attempt may have its number by now
			tab.remove(attemptKey{e.ID, e.Attempt})
			if e.Kind == task.Finished && e.Task != nil {
				tab.forgetEarlier(e.Task)
			}
		}
	}
	return nil
}

// remove removes an attempt. Its worker need no longer keep the result.
func (tab *attemptTable) remove(key attemptKey) {
	tab.mu.Lock()
	p := tab.byKey[key]
	delete(tab.byKey, key)
	tab.mu.Unlock()
	if p != nil && p.kept {
		tab.sendOrder(p.worker, p.id, opRecorded)
	}
}

// send sends a message to a worker until the worker is lost. It calls delivered once the message has
// arrived.
func (tab *attemptTable) send(w *remoteWorker, msg []byte, delivered func()) {
	tab.out.Send(w.ctx, w.tasks, msg, delivered)
}

// Close does nothing. See runner.Sink.
func (tab *attemptTable) Close(task.Stats) error { return nil }
