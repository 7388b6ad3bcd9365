package sched

import (
	"math"
	"time"
)

// HandRank is where the ranks begin that items are given by hand: above it, and below -HandRank.
// The ranks between are priorities, the highest the lowest rank.
const HandRank = 1 << 32

// step is after how many starts what comes counts as one priority lower, while priorities
// differ. So nothing waits for ever.
const step = 64

// Limits are what a Dispatcher minds beside its policy. All counts are of what slots hold.
type Limits struct {
	PerKey  int   // items of a key at once; 0 for no limit
	KeyRate Rate  // of the starts of a key
	Delay   Rate  // of all starts
	Rate    Rate  // the same
	Caps    []int // units of each limit of which items claim some
	Ages    bool  // whether ranks are priorities; see HandRank

	// Allow reports whether an item may start or, if that is known, when, and May whether a slot may
	// take one, for reasons of the caller's. Nil is always.
	Allow func(now time.Time) (ok bool, at time.Time)
	May   func(slot int) bool
	// Fit reports whether an item may start, and not only slots have to be free for it. If not, it is
	// awaited. Nil is always.
	Fit func(id uint64) bool
	// Parked learns that an item is parked, or not any more because it is queued again or starts.
	Parked func(id uint64, parked bool)
}

// Dispatcher answers one question: which item starts now, and if none does, why not, and
// when to ask again. Items are queued in its policy. One that the policy gives out and that
// may not start yet is parked, so that others pass, and is queued again before all others
// of its rank once it may. NewDispatcher makes one.
type Dispatcher struct {
	Policy
	limits Limits
	now    time.Time
	again  time.Time
	slots  *slots // of the policy
	gates         // of keys
	claims
	parked store
	called map[uint64]Item // by ID: items that were parked and are queued again, with all that they claim

	best, worst int64 // the priorities that were queued since nothing waited
	started     int64 // the items that started since these differ
}

// Wait is what an item waits for.
type Wait uint8

// What items wait for.
const (
	ForSlot    Wait = iota // a slot that takes it
	ForKey                 // Limits.PerKey
	ForKeyRate             // Limits.KeyRate
	ForUnits               // Claim.Units
	ForPlaces              // Claim.Places, its own or those of another item
	ForDelay               // Limits.Delay
	ForRate                // Limits.Rate
	ForToken               // Limits.May
	ForMachine             // Limits.Allow
	ForStock               // a Slot.Stock that has what it claims
)

// NewDispatcher returns a Dispatcher of a policy without items and slots. A policy that is
// serial keeps any limit per key itself.
func NewDispatcher(p Policy, limits Limits) *Dispatcher {
	d := &Dispatcher{
		Policy: p, slots: p.base(), limits: limits, called: map[uint64]Item{}, claims: newClaims(limits.Caps),
	}
	if p.Serial() {
		d.limits.PerKey = 0
	}
	if d.limits.PerKey > 0 || d.limits.KeyRate.Every > 0 {
		d.gates = gates{of: map[uint64]*gate{}, due: NewDelay()}
	}
	return d
}

// Wide returns the item for which places are kept, or 0. Nothing may have changed since Next.
func (d *Dispatcher) Wide() uint64 {
	for _, l := range d.late {
		if l.at != nil && l.claim.wide() {
			return l.queue.min().ID
		}
	}
	return 0
}

// Waits returns what a parked item waits for.
func (d *Dispatcher) Waits(id uint64) Wait {
	e := d.parked.find(id)
	if l := d.lineOf(e); l != nil {
		_, wait := d.spot(l)
		return wait
	}
	return d.closed(d.of[e.Key])
}

// Ready returns a slot with free capacity for which an item is queued, or 0 if there is none.
func (d *Dispatcher) Ready() int {
	if d.Len() == 0 {
		return 0
	}
	return d.Policy.Ready()
}

// Held returns how many places items have in the slots that are in.
func (d *Dispatcher) Held() int { return d.slots.taken }

// Next returns the item that starts, and its slot, which holds it from now on. If none does,
// the slot is 0, and wait is why: until Again, another method is called, or Allow or May has
// another answer.
func (d *Dispatcher) Next(now time.Time) (it Item, slot int, wait Wait) {
	d.now = now
	d.recall()
	for {
		l, at := d.serve()
		if l == nil {
			if slot = d.Ready(); slot == 0 {
				return it, 0, ForSlot
			}
		}
		if wait = d.early(); wait != ForSlot {
			return it, 0, wait
		}
		if l != nil {
			it, slot = d.place(l, at)
		} else {
			it, slot = d.pop(slot)
		}
		switch {
		case slot == 0 && l == nil && d.Wide() > 0:
			return it, 0, ForPlaces
		case slot == 0:
			return it, 0, ForToken
		case l != nil || d.admit(&it, slot):
			d.start(&it)
			return it, slot, ForSlot
		}
	}
}

// Again returns when to ask again what starts, if nothing else has happened; zero is never.
func (d *Dispatcher) Again() time.Time { return d.again }

// early returns what all items wait for.
func (d *Dispatcher) early() Wait {
	at, wait := d.limits.Delay.at, ForDelay
	if rate := d.limits.Rate.at; rate.After(at) {
		at, wait = rate, ForRate
	}
	if d.now.Before(at) {
		d.again = at
		return wait
	}
	if d.limits.Allow != nil {
		if ok, at := d.limits.Allow(d.now); !ok {
			d.again = at
			return ForMachine
		}
	}
	return ForSlot
}

// pop takes an item out of the policy for a slot that is ready or, if that may take none, for
// another one.
func (d *Dispatcher) pop(slot int) (it Item, in int) {
	for i := range d.slots.all {
		if i > 0 { // no slot has the ID 0
			slot = i
		}
		if d.open(slot) {
			if it, ok := d.Policy.Pop(slot); ok {
				d.Take(slot, it)
				return it, slot
			}
		}
	}
	return it, 0
}

// open reports whether a slot may take an item that takes one place.
func (d *Dispatcher) open(slot int) bool {
	at := &d.slots.all[slot]
	return d.slots.hasRoom(slot) && !d.kept(places, at.room, nil) && (d.limits.May == nil || d.limits.May(slot))
}

// admit reports whether an item that the policy has given to a slot may start. If not, it is
// parked.
func (d *Dispatcher) admit(it *Item, slot int) bool {
	it.Rank = (it.Rank + 1) >> 1 // see Push and Return
	was, called := d.called[it.ID]
	if called {
		it.Rank = was.Rank
	}
	fits := d.limits.Fit == nil || d.limits.Fit(it.ID)
	again := fits && d.keepFrom(it)
	if fits && !again {
		delete(d.called, it.ID)
		if called || d.pass(it) && d.grant(it) {
			return true
		}
	}
	if d.Policy.Done(slot, *it, true); again {
		d.Return(*it)
	}
	return false
}

// park parks an item in a queue.
func (d *Dispatcher) park(q *queue[*entry], it *Item) {
	d.parked.insert(q, it)
	d.limits.Parked(it.ID, true)
}

// unpark takes the first item out of a queue.
func (d *Dispatcher) unpark(q *queue[*entry]) Item {
	d.limits.Parked(q.min().ID, false)
	return d.cut(q.min())
}

// requeue queues an item again that was parked.
func (d *Dispatcher) requeue(it Item) {
	d.called[it.ID] = it
	d.Return(it)
}

// start notes that an item starts.
func (d *Dispatcher) start(it *Item) {
	d.limits.Delay.start(d.now)
	d.limits.Rate.start(d.now)
	d.begun(it)
	d.passed(it.Claim)
	if d.best < d.worst {
		d.started++
	}
}

// Push queues an item, as Policy.Push does.
func (d *Dispatcher) Push(it Item) bool {
	if d.limits.Ages && it.Rank > -HandRank && it.Rank < HandRank {
		if d.Len()+d.parked.Len() == 0 {
			d.best, d.worst, d.started = it.Rank, it.Rank, 0
		}
		d.best, d.worst = min(d.best, it.Rank), max(d.worst, it.Rank)
		it.Rank += d.started / step
	}
	it.Rank *= 2
	return d.Policy.Push(it)
}

// Return queues an item again that was taken back from its slot before it had begun: before
// all others of its rank. A serial policy would have one that was parked wait, with all that
// it has taken, for one of its key that was given a lower rank: there it goes before all others.
func (d *Dispatcher) Return(it Item) bool {
	_, called := d.called[it.ID]
	if it.Rank = 2*it.Rank - 1; called && d.Serial() {
		it.Rank = math.MinInt64
	}
	return d.Policy.Push(it)
}

// Done ends an item on its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it Item, again bool) {
	d.Policy.Done(slot, it, again)
	d.giveBack(&it)
	d.unpass(it.Key, true)
}

// Remove removes an item that is queued, parked or awaited, and reports whether it was one of
// the first two.
func (d *Dispatcher) Remove(id uint64) bool {
	it, called := d.called[id]
	e := d.parked.find(id)
	waited := e != nil
	if !waited || d.Serial() { // it may be awaited there
		waited = d.Policy.Remove(id) || waited
	}
	switch {
	case called:
		delete(d.called, id)
		d.giveBack(&it)
		d.unpass(it.Key, false)
	case e == nil:
	case d.lineOf(e) != nil:
		d.unpass(d.cut(e).Key, false)
	default:
		d.call(d.of[d.cut(e).Key])
	}
	return waited
}

// Abandon gives up what is queued and parked, since nothing starts any more.
func (d *Dispatcher) Abandon() {
	d.gates, d.lines, d.late = gates{}, nil, nil
	d.parked = store{}
	clear(d.called)
}
