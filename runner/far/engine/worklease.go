package engine

import (
	"encoding/hex"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
)

const (
	// A worker kills its tasks when it has not confirmed its lease for fence of TTL,
	// and its guardian does at lastFence if the worker itself cannot.
	fence      = 70 // per cent
	lastFence  = 80
	checkEvery = 250 * time.Millisecond
	minCheck   = 20 * time.Millisecond
)

// lease holds a worker's lease under one ID. When it is lost, so is every task taken under it.
type lease struct {
	id    string
	since time.Time

	// under crewWorker.mu

	lost    bool
	renewed time.Duration // since boot, when the last confirmed renewal was sent; 0 for none
	subs    []*nats.Subscription
}

// guarded is an executor that kills its tasks at a time even if this process is
// stopped.
type guarded interface{ Lease(until time.Time) }

// keep has the lease renewed until the run is over, and ends the tasks if that fails for too long.
func (w *worker) maintainLease() {
	look := time.NewTicker(max(min(checkEvery, w.work.TTL/40), minCheck))
	defer look.Stop()
	status := w.s.nc.StatusChanged(nats.CONNECTED)
	go w.renewLoop()
	for {
		select {
		case <-w.done:
			return
		case <-w.s.refused:
			w.s.nc.Close() // without which the lease might be certain
			w.expire()
			w.dropMessages()
			return
		case <-status:
			w.renewSoon()
		case <-look.C:
		}
		w.expire()
		w.endSilentRuns()
	}
}

// renewAgain renews the lease in time, and when it is nudged, until the run is over.
func (w *worker) renewLoop() {
	for due := time.Now().Add(w.work.TTL / 4); ; {
		select {
		case <-w.done:
			return
		case <-w.s.refused:
			return
		case <-w.renewNow:
		case <-time.After(time.Until(due)):
		}
		due = time.Now().Add(w.work.TTL / 4)
		if !w.s.nc.IsConnected() {
			continue // until there is a connection
		}
		w.expire()                                                           // no renewal concerns a lease that has run out
		if err := w.s.explain(w.renew()); err != nil && !w.s.nc.IsClosed() { // or it is refused, as is told anyway
			if errors.Is(err, errNoAnswer) { // whose hint is for people
				err = errors.New("the hub does not answer; trying again")
			}
			w.noticef("the lease of this worker could not be renewed: %v", err)
			due = time.Now().Add(w.work.TTL / 20)
		}
	}
}

// renew renews the lease, under a new ID if that is lost.
func (w *worker) renew() error {
	w.announceSem <- struct{}{}
	defer func() { <-w.announceSem }()
	if w.retired {
		return nil
	}
	w.mu.Lock()
	l, patience := w.lease, w.work.TTL*3/10 // short enough to try again before the lease ends
	w.mu.Unlock()
	if l != nil {
		return w.confirm(l, patience)
	}
	l = &lease{id: w.s.newID(w.host), since: time.Now()}
	if w.hostLock != nil {
		w.hostLock.setOwner(l.id)
	}
	err := w.listen(l)
	if err == nil {
		w.extend(l, w.s.now()) // tasks may come before it is confirmed
		err = w.confirm(l, max(patience, answerWait))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		l.endLocked()
		return err
	}
	if w.lease = l; w.hadLease {
		go w.work.Notice("this worker is ready for tasks again")
	}
	w.hadLease = true
	return nil
}

// confirm tells of the worker, and extends its lease once the server has got that.
func (w *worker) confirm(l *lease, patience time.Duration) error {
	sent := w.s.now()
	err := w.announce(w.presence(l), patience)
	if err == nil {
		w.extend(l, sent)
	}
	return err
}

// extend counts a lease from a time since boot. A renewal that was sent when the lease was
// no longer certain comes too late: the tasks may have been killed, and expire ends it.
func (w *worker) extend(l *lease, from time.Duration) {
	w.mu.Lock()
	late := l.lost || l.renewed > 0 && from >= l.renewed+w.work.TTL*fence/100
	if !late {
		l.renewed = from
	}
	w.mu.Unlock()
	if g, ok := w.local.(guarded); ok && !late {
		g.Lease(time.Now().Add(from + w.work.TTL*lastFence/100 - w.s.now()))
	}
}

// listen takes tasks and orders.
func (w *worker) listen(l *lease) error {
	tasks, err := w.s.serveMessages(taskSubject(w.work.Queue, l.id, "*", "*"), func(subject string, data []byte) { w.receive(l, subject, data) })
	if err != nil {
		return err
	}
	orders, err := w.s.serveOrders(orderSubject(w.work.Queue, l.id, "*"), func(o *Order, a *Answer) error { return w.carryOut(l, o, a) })
	l.subs = []*nats.Subscription{tasks, orders}
	return err
}

// end stops taking tasks and orders. Its caller holds mu.
func (l *lease) endLocked() {
	l.lost = true
	for _, s := range l.subs {
		_ = s.Unsubscribe()
	}
}

// presence describes the worker for submitters.
func (w *worker) presence(l *lease) Presence {
	p := Presence{
		Queue: w.work.Queue, Version: Version, ID: l.id, Host: w.host, Labels: w.work.Labels, Offers: w.offers, TTL: w.work.TTL, Signed: w.work.Commands, Since: l.since,
		Mark: w.mark, After: w.previousWorker(),
	}
	if w.values {
		p.Template, p.Command = hex.EncodeToString(w.digest[:]), w.text
	}
	if now := w.work.Do(task.Command{Op: task.Look}).Snapshot; now != nil {
		p.Slots, p.Busy = len(now.Slots), len(now.Tasks)
		p.Done, p.Failed = now.Stats.Finished(), now.Stats.Failed()
		switch now.State {
		case task.Going:
			w.setState(ready)
		case task.Paused:
			w.setState(paused)
			w.returnUnbegun()
		default:
			w.setState(draining)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.State = w.state
	go w.seats.Resize(p.Slots)
	return p // a copy, which the caller may change
}

// put tells of the worker, and returns once the server has got it, and so passes it on before anything
// that comes later.
func (w *worker) announce(p Presence, patience time.Duration) error {
	err := w.s.publishJSON(presenceSubject(p.Queue, p.ID), p)
	if err == nil {
		err = w.s.nc.FlushTimeout(patience)
	}
	return err
}

// expire ends everything if the lease cannot be renewed.
func (w *worker) expire() {
	w.mu.Lock()
	l := w.lease
	if l == nil || w.leasedLocked(l) {
		w.mu.Unlock()
		return
	}
	l.endLocked()
	w.lease = nil
	var tasks []uint64
	for id, h := range w.tasks {
		if h.lease == l && h.phase < phaseEnded {
			tasks = append(tasks, id)
		}
	}
	lost := len(w.held)
	for _, h := range w.held {
		h.cancel()
		w.forgetLocked(h)
	}
	clear(w.runs)
	clear(w.queues)
	w.heldChanged.Broadcast()
	w.dropMessages() // with mu held: what is sent later is of the next lease
	w.mu.Unlock()
	w.cancelTasks(tasks, true)
	w.seats.End(func(*Seat) bool { return true })
	text := "the hub has not confirmed the lease of this worker in time"
	if w.s.nc.IsClosed() {
		text = "the hub has ended the lease of this worker"
		if lost == 0 { // why is said anyway
			return
		}
	}
	if lost > 0 {
		text += ": its tasks are killed, and " + task.Count(int64(lost), "task") + " will start elsewhere"
	}
	w.work.Notice(text)
	w.renewSoon()
}

// drop sends nothing any more of what has come so far.
func (w *worker) dropMessages() { w.out.Drop(func(string) bool { return true }) }

// leased reports whether a lease is certain, and the connection not lost for
// ever, as that of a worker of --ssh can be. Its caller holds mu.
func (w *worker) leasedLocked(l *lease) bool {
	return !l.lost && !w.s.nc.IsClosed() && w.s.now() < l.renewed+w.work.TTL*fence/100
}

// leave says that the worker has gone. Nothing runs any more.
func (w *worker) announceGone() {
	w.announceSem <- struct{}{}
	defer func() { <-w.announceSem }()
	w.retired = true
	w.mu.Lock()
	l := w.lease
	w.mu.Unlock()
	if l == nil || !w.s.nc.IsConnected() {
		return
	}
	_ = l.subs[0].Unsubscribe() // what comes now has not begun
	p := w.presence(l)
	p.State, p.Slots, p.Busy = gone, 0, 0
	if w.announce(p, answerWait) == nil {
		w.hostLock.remove()
	}
}
