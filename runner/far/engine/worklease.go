package engine

import (
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
)

const (
	// A worker kills its tasks once its lease has not been confirmed for fence per cent of TTL. In case it
	// cannot, its guardian kills them at lastFence.
	fence      = 70 // per cent of TTL
	lastFence  = 80
	checkEvery = 250 * time.Millisecond
	minCheck   = 20 * time.Millisecond
)

// lease is a worker's lease under one ID. When it is lost, so is every task accepted under it.
type lease struct {
	id        string
	since     time.Time
	confirmed bool // by the server at least once; under worker.announceSem

	// under worker.mu

	lost    bool
	renewed time.Duration // time since boot at which the last confirmed renewal was sent; 0 for none
	subs    []*nats.Subscription
}

// guarded is an executor that kills its tasks at the given time even if this process is stopped.
type guarded interface{ Lease(until time.Time) }

// maintainLease renews the lease until the run is over. When the lease is lost, it kills the tasks.
func (w *worker) maintainLease() {
	look := time.NewTicker(max(min(checkEvery, w.Engine.TTL/40), minCheck))
	defer look.Stop()
	status := w.s.nc.StatusChanged(nats.CONNECTED)
	go w.renewLoop()
	for {
		select {
		case <-w.done:
			return
		case <-w.s.refused:
			w.s.nc.Close() // so that expire finds the lease lost
			w.expire()
			return
		case <-status:
			w.renewSoon()
		case <-look.C:
		}
		w.expire()
		w.endSilentRuns()
	}
}

// renewLoop starts the lease and renews it in time, and when nudged, until the run is over.
func (w *worker) renewLoop() {
	for due := time.Now(); ; {
		select {
		case <-w.done:
			return
		case <-w.s.refused:
			return
		case <-w.renewNow:
		case <-time.After(time.Until(due)):
		}
		due = time.Now().Add(w.Engine.TTL / 4)
		if !w.s.nc.IsConnected() {
			continue // a new connection nudges
		}
		w.expire()            // a lease that has run out must not be renewed
		if w.renew() != nil { // the connection, if it is lost, is reported elsewhere
			due = time.Now().Add(w.Engine.TTL / 20)
		}
	}
}

// renew renews the lease, or starts one under a new ID if there is none.
func (w *worker) renew() error {
	w.announceSem <- struct{}{}
	defer func() { <-w.announceSem }()
	if w.retired {
		return nil
	}
	w.mu.Lock()
	l, patience := w.lease, w.Engine.TTL*3/10 // leaves time for another try before the lease ends
	w.mu.Unlock()
	if l == nil {
		if err := w.s.nc.FlushTimeout(answerWait); err != nil { // otherwise the announcement might wait there until it is too old
			return err
		}
		l = &lease{id: w.s.newID(w.host), since: time.Now()}
		if err := w.listen(l); err != nil {
			return err
		}
		w.extend(l, w.s.now()) // tasks may arrive before the confirmation
		w.mu.Lock()
		w.lease = l
		w.mu.Unlock()
	}
	sent := w.s.now()
	err := w.announce(w.presence(l), patience)
	if err == nil {
		w.extend(l, sent)
	}
	if err == nil && !l.confirmed {
		err = w.s.checkAllowed()
	}
	if err == nil && !l.confirmed {
		l.confirmed = true
		go w.Ready()
	}
	return err
}

// extend extends a lease that was renewed at from, a time since boot. A renewal that was sent after
// the lease had run out does not count: the tasks may have been killed, and expire ends the lease.
func (w *worker) extend(l *lease, from time.Duration) {
	w.mu.Lock()
	late := l.lost || l.renewed > 0 && from >= l.renewed+w.Engine.TTL*fence/100
	if !late {
		l.renewed = from
	}
	w.mu.Unlock()
	if g, ok := w.local.(guarded); ok && !late {
		g.Lease(time.Now().Add(from + w.Engine.TTL*lastFence/100 - w.s.now()))
	}
}

// listen subscribes to the tasks and orders of a lease.
func (w *worker) listen(l *lease) error {
	tasks, err := w.s.serveMessages(taskSubject(w.Engine.Queue, l.id, "*", "*"), func(subject string, data []byte) { w.receive(l, subject, data) })
	if err != nil {
		return err
	}
	orders, err := w.s.serveOrders(orderSubject(w.Engine.Queue, l.id, "*"), func(o *Order, a *Answer) error { return w.carryOut(l, o, a) })
	l.subs = []*nats.Subscription{tasks, orders}
	return err
}

// endLocked ends the subscriptions of a lost lease. The caller must hold worker.mu.
func (l *lease) endLocked() {
	l.lost = true
	for _, s := range l.subs {
		_ = s.Unsubscribe()
	}
}

// presence returns the worker's announcement. It adapts the worker's state and seats to those of its run,
// and returns the attempts that have not begun if the run is paused.
func (w *worker) presence(l *lease) Presence {
	p := Presence{
		Queue: w.Engine.Queue, Version: Version, ID: l.id, Host: w.host, Labels: w.Engine.Labels, Offers: w.offers, TTL: w.Engine.TTL, Job: Job{Signed: w.Engine.Commands}, Since: l.since,
		Mark: w.mark, State: draining,
	}
	if w.values {
		p.Template, p.Command = hex.EncodeToString(w.digest[:]), w.text
	}
	if now := w.Do(task.Command{Op: task.Look}).Snapshot; now != nil {
		p.Slots, p.Busy = len(now.Slots), len(now.Tasks)
		p.Done, p.Failed = now.Stats.Finished(), now.Stats.Failed()
		switch now.State {
		case task.StateRunning:
			p.State = ready
		case task.StatePaused:
			p.State = paused
			defer w.returnUnbegun() // attempts that come from now on are returned anyway
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, p.After = p.State, w.previous
	for _, h := range w.tasks {
		if h.lease.lost {
			p.After = "" // not yet
		}
	}
	go w.seats.Resize(p.Slots)
	return p
}

// announce publishes p and returns once the server has it. The server delivers it before everything
// that is published later.
func (w *worker) announce(p Presence, patience time.Duration) error {
	err := w.s.publishJSON(presenceSubject(p.Queue, p.ID), p)
	if err == nil {
		err = w.s.nc.FlushTimeout(patience)
	}
	return err
}

// expire kills all tasks and forgets all attempts if the lease has run out. Then it asks for a new
// lease.
func (w *worker) expire() {
	w.mu.Lock()
	l := w.lease
	if l == nil || w.leasedLocked(l) {
		w.mu.Unlock()
		return
	}
	l.endLocked()
	w.lease, w.previous = nil, l.id
	held := slices.Collect(maps.Values(w.held))
	tasks, lost := w.stopLocked(stopDiscard, held...), len(held)
	for _, h := range held {
		w.forgetLocked(h)
	}
	for _, r := range w.runs {
		r.dropMessages()
	}
	clear(w.runs)
	w.mu.Unlock()
	w.cancelTasks(tasks, true)
	w.seats.End(func(*Seat) bool { return true })
	if lost > 0 {
		w.Notice("this worker has lost its lease: its tasks are killed, and " + task.Count(int64(lost), "task") + " will start elsewhere")
	}
	w.renewSoon()
}

// leasedLocked reports whether a lease still holds. It does not once the connection is closed for
// good, which happens to workers of --ssh. The caller must hold mu.
func (w *worker) leasedLocked(l *lease) bool {
	return !l.lost && !w.s.nc.IsClosed() && w.s.now() < l.renewed+w.Engine.TTL*fence/100
}

// announceGone announces that the worker has ended, and removes its lock. No attempt may be running.
func (w *worker) announceGone() {
	defer w.removeLock()
	w.announceSem <- struct{}{}
	defer func() { <-w.announceSem }()
	w.retired = true
	w.mu.Lock()
	l := w.lease
	w.mu.Unlock()
	if l == nil || !w.s.nc.IsConnected() {
		return
	}
	_ = l.subs[0].Unsubscribe() // attempts that arrive from now on count as not begun
	p := w.presence(l)
	p.State, p.Slots, p.Busy = gone, 0, 0
	_ = w.announce(p, answerWait)
}
