package sched

import (
	"slices"
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
	Told    bool  // Started tells when an item has started; or else it has once Next returns it

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
// may not start yet is parked, so that others pass. It is called once it may, and starts before
// all others of its rank. NewDispatcher makes one.
type Dispatcher struct {
	Policy
	limits Limits
	now    time.Time
	again  time.Time
	slots  *slots // of the policy
	gates         // of keys
	claims
	parked store
	called queue // of the parked items those that wait for a slot again, with all that they claim

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
		Policy: p, slots: p.base(), limits: limits, claims: newClaims(limits.Caps),
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
	l := e.in.line
	if l == nil {
		return d.closed(d.of[e.Key])
	}
	switch _, ok := d.spot(l); {
	case ok:
		return ForSlot
	case d.local(l.claim) && d.Width(l.claim) == 0:
		return ForStock
	case l.claim.wide() && slices.ContainsFunc(d.slots.rooms, func(r *room) bool { return d.enough(l.claim, l, r) }):
		return ForPlaces
	}
	return ForUnits
}

// settle has the policy follow after slots have joined or left.
func (d *Dispatcher) settle() {
	if d.slots.changed {
		d.slots.changed = false
		d.Policy.settle()
	}
}

// Ready returns a slot with free capacity for which an item is queued or called, or 0 if there is none.
func (d *Dispatcher) Ready() int {
	d.settle()
	return d.slots.emptiest(func(id int) bool { return d.peek(id) != nil })
}

// peek returns the next item for a slot that has free capacity, or nil.
func (d *Dispatcher) peek(slot int) *entry {
	e := d.Policy.peek(slot)
	for _, c := range d.called.items[d.called.head:] {
		if (e == nil || c.Rank <= e.Rank) && d.fits(&c.Item, slot) {
			return c
		}
	}
	return e
}

// Choice says which slots would take an item.
func (d *Dispatcher) Choice(it Item) Choice {
	d.settle()
	c := d.Policy.Choice(it)
	c.Free = d.slots.emptiest(func(id int) bool { return d.fits(&it, id) })
	return c
}

// Held returns how many places items have in the slots that are in.
func (d *Dispatcher) Held() int { return d.slots.taken }

// Next returns the item that starts, and its slot, which holds it from now on. If none does,
// the slot is 0, and wait is why: until Again, another method is called, or Allow or May has
// another answer.
func (d *Dispatcher) Next(now time.Time) (it Item, slot int, wait Wait) {
	d.now = now
	d.settle()
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
			if it, slot = d.place(l, at); slot == 0 {
				return it, 0, ForToken
			}
			d.start(&it)
			return it, slot, ForSlot
		}
		if !d.open(slot) {
			slot = d.slots.emptiest(func(id int) bool { return d.open(id) && d.peek(id) != nil })
		}
		switch e := d.peek(slot); {
		case slot == 0 && d.Wide() > 0:
			return it, 0, ForPlaces
		case slot == 0:
			return it, 0, ForToken
		case d.keepFrom(&e.Item):
		case d.admit(e, &it):
			d.Take(slot, it)
			d.start(&it)
			return it, slot, ForSlot
		}
	}
}

// Again returns when to ask again what starts, if nothing else has happened; zero is never.
func (d *Dispatcher) Again() time.Time { return d.again }

// early returns what all items wait for.
func (d *Dispatcher) early() Wait {
	ok, at := d.limits.Delay.allows(d.now)
	wait := ForDelay
	if free, next := d.limits.Rate.allows(d.now); !free && (ok || next.After(at)) {
		ok, at, wait = false, next, ForRate
	}
	if !ok {
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

// open reports whether a slot may take an item that takes one place.
func (d *Dispatcher) open(slot int) bool {
	at := &d.slots.all[slot]
	return d.slots.hasRoom(slot) && !d.kept(places, at.room, nil) && (d.limits.May == nil || d.limits.May(slot))
}

// admit takes an item out of its queue, and reports whether it may start. If not, it is parked or
// awaited.
func (d *Dispatcher) admit(e *entry, it *Item) bool {
	if e.in == &d.called {
		*it = d.parked.cut(e)
		return true
	}
	*it = d.pop(e, true)
	return (d.limits.Fit == nil || d.limits.Fit(it.ID)) && d.pass(it) && d.grant(it)
}

// park parks an item in a queue.
func (d *Dispatcher) park(q *queue, it *Item) {
	d.parked.insert(q, it)
	d.limits.Parked(it.ID, true)
}

// unpark takes the first item out of a queue.
func (d *Dispatcher) unpark(q *queue) Item {
	d.limits.Parked(q.min().ID, false)
	return d.cut(q.min())
}

// requeue has an item wait for a slot, with all that it claims.
func (d *Dispatcher) requeue(it Item) { d.parked.insert(&d.called, &it) }

// start notes that an item is to start.
func (d *Dispatcher) start(it *Item) {
	d.limits.Delay.granted++
	d.limits.Rate.granted++
	if !d.limits.Told {
		d.Started(d.now, *it)
	}
	d.passed(it.Claim)
	if d.best < d.worst {
		d.started++
	}
}

// Started takes that an item that Next has returned has started, which is what rates count. It
// must come before Done.
func (d *Dispatcher) Started(now time.Time, it Item) {
	d.now = now
	d.limits.Delay.happened(now)
	d.limits.Rate.happened(now)
	if g := d.of[it.Key]; g != nil {
		g.rate.happened(now)
		d.call(g)
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
	d.settle()
	return d.Policy.Push(it)
}

// Return queues an item again that was taken back from its slot before it had begun: before
// all others of its rank.
func (d *Dispatcher) Return(it Item) bool {
	if d.pass(&it) && d.grant(&it) {
		d.requeue(it)
	}
	return true
}

// Done ends an item on its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it Item, again bool) {
	d.settle()
	d.Policy.Done(slot, it, again)
	d.giveBack(&it)
	d.unpass(it.Key, true)
}

// Remove removes an item that is queued, parked or awaited, and reports whether it was one of
// the first two. No slot may hold it.
func (d *Dispatcher) Remove(it Item) bool {
	d.settle()
	d.release(it)
	if e := d.slots.find(it.ID); e != nil {
		d.pop(e, false)
		return true
	}
	e := d.parked.find(it.ID)
	if e == nil {
		return false
	}
	called := e.in == &d.called
	passed := called || e.in.line != nil
	if it = d.cut(e); called {
		d.giveBack(&it)
	}
	if passed {
		d.unpass(it.Key, false)
	} else {
		d.call(d.of[it.Key])
	}
	return true
}

// Abandon gives up what is queued and parked, since nothing starts any more.
func (d *Dispatcher) Abandon() {
	d.gates, d.lines, d.late = gates{}, nil, nil
	d.parked, d.called = store{}, queue{}
}
