package sched

import (
	"slices"
	"time"
)

// ManualRank is where the ranks begin that items are given by hand: above it, and below -HandRank.
// The ranks between are priorities, the highest the lowest rank.
const ManualRank = 1 << 32

// agingStep is after how many starts what comes counts as one priority lower, while priorities
// differ. So nothing waits for ever.
const agingStep = 64

// Limits are what a Dispatcher minds beside its policy. All counts are of what slots hold.
type Limits struct {
	PerKey        int   // items of a key at once; 0 for no limit
	KeyRate       Rate  // of the starts of a key
	Delay         Rate  // of all starts
	Rate          Rate  // the same
	Caps          []int // units of each limit of which items claim some
	Aging         bool  // whether ranks are priorities; see HandRank
	ReportsStarts bool  // Started tells when an item has started; or else it has once Next returns it

	// Allow reports whether an item may start or, if that is known, when, and May whether a slot may
	// take one, for reasons of the caller's. Nil is always.
	Allow     func(now time.Time) (ok bool, at time.Time)
	AllowSlot func(slot int) bool
	// AllowItem reports whether an item may start, and not only slots have to be free for it. If not, it is
	// awaited. Nil is always.
	AllowItem func(id uint64) bool
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
	parked  store
	granted queue // of the parked items those that wait for a slot again, with all that they claim

	lowestRank, highestRank int64 // the priorities that were queued since nothing waited
	agingStarts             int64 // the items that started since these differ
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
		d.gates = gates{byKey: map[uint64]*gate{}, gateDue: NewDelay()}
	}
	return d
}

// Wide returns the item for which places are kept, or 0. Nothing may have changed since Next.
func (d *Dispatcher) Wide() uint64 {
	for _, l := range d.overdue {
		if l.reservedOn != nil && l.claim.wide() {
			return l.queue.first().ID
		}
	}
	return 0
}

// Waits returns what a parked item waits for.
func (d *Dispatcher) Waits(id uint64) Wait {
	e := d.parked.find(id)
	l := e.queue.line
	if l == nil {
		return d.gateWait(d.byKey[e.Key])
	}
	switch _, ok := d.findHost(l); {
	case ok:
		return ForSlot
	case d.usesHostUnits(l.claim) && d.Width(l.claim) == 0:
		return ForStock
	case l.claim.wide() && slices.ContainsFunc(d.slots.hosts, func(r *host) bool { return d.enough(l.claim, l, r) }):
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
	return d.slots.leastLoaded(func(id int) bool { return d.peek(id) != nil })
}

// peek returns the next item for a slot that has free capacity, or nil.
func (d *Dispatcher) peek(slot int) *entry {
	e := d.Policy.peek(slot)
	for _, c := range d.granted.items[d.granted.head:] {
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
	c.Free = d.slots.leastLoaded(func(id int) bool { return d.fits(&it, id) })
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
	d.admitDue()
	for {
		l, at := d.serveLines()
		if l == nil {
			if slot = d.Ready(); slot == 0 {
				return it, 0, ForSlot
			}
		}
		if wait = d.globalWait(); wait != ForSlot {
			return it, 0, wait
		}
		if l != nil {
			if it, slot = d.startPlaced(l, at); slot == 0 {
				return it, 0, ForToken
			}
			d.noteStart(&it)
			return it, slot, ForSlot
		}
		if !d.slotOpen(slot) {
			slot = d.slots.leastLoaded(func(id int) bool { return d.slotOpen(id) && d.peek(id) != nil })
		}
		switch e := d.peek(slot); {
		case slot == 0 && d.Wide() > 0:
			return it, 0, ForPlaces
		case slot == 0:
			return it, 0, ForToken
		case d.reserveAgainst(&e.Item):
		case d.tryStart(e, &it):
			d.Take(slot, it)
			d.noteStart(&it)
			return it, slot, ForSlot
		}
	}
}

// Again returns when to ask again what starts, if nothing else has happened; zero is never.
func (d *Dispatcher) Again() time.Time { return d.again }

// globalWait returns what all items wait for.
func (d *Dispatcher) globalWait() Wait {
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

// slotOpen reports whether a slot may take an item that takes one place.
func (d *Dispatcher) slotOpen(slot int) bool {
	at := &d.slots.all[slot]
	return d.slots.hasRoom(slot) && !d.reserved(places, at.host, nil) && (d.limits.AllowSlot == nil || d.limits.AllowSlot(slot))
}

// tryStart takes an item out of its queue, and reports whether it may start. If not, it is parked or
// awaited.
func (d *Dispatcher) tryStart(e *entry, it *Item) bool {
	if e.queue == &d.granted {
		*it = d.parked.remove(e)
		return true
	}
	*it = d.pop(e, true)
	return (d.limits.AllowItem == nil || d.limits.AllowItem(it.ID)) && d.enterGate(it) && d.tryClaim(it)
}

// park parks an item in a queue.
func (d *Dispatcher) park(q *queue, it *Item) {
	d.parked.insert(q, it)
	d.limits.Parked(it.ID, true)
}

// unpark takes the first item out of a queue.
func (d *Dispatcher) unpark(q *queue) Item {
	d.limits.Parked(q.first().ID, false)
	return d.unparkEntry(q.first())
}

// pushGranted has an item wait for a slot, with all that it claims.
func (d *Dispatcher) pushGranted(it Item) { d.parked.insert(&d.granted, &it) }

// noteStart notes that an item is to start.
func (d *Dispatcher) noteStart(it *Item) {
	d.limits.Delay.pending++
	d.limits.Rate.pending++
	if !d.limits.ReportsStarts {
		d.Started(d.now, *it)
	}
	d.countOvertaken(it.Claim)
	if d.lowestRank < d.highestRank {
		d.agingStarts++
	}
}

// Started takes that an item that Next has returned has started, which is what rates count. It
// must come before Done.
func (d *Dispatcher) Started(now time.Time, it Item) {
	d.now = now
	d.limits.Delay.started(now)
	d.limits.Rate.started(now)
	if g := d.byKey[it.Key]; g != nil {
		g.rate.started(now)
		d.admitParked(g)
	}
}

// Push queues an item, as Policy.Push does.
func (d *Dispatcher) Push(it Item) bool {
	if d.limits.Aging && it.Rank > -ManualRank && it.Rank < ManualRank {
		if d.Len()+d.parked.Len() == 0 {
			d.lowestRank, d.highestRank, d.agingStarts = it.Rank, it.Rank, 0
		}
		d.lowestRank, d.highestRank = min(d.lowestRank, it.Rank), max(d.highestRank, it.Rank)
		it.Rank += d.agingStarts / agingStep
	}
	d.settle()
	return d.Policy.Push(it)
}

// Return queues an item again that was taken back from its slot before it had begun: before
// all others of its rank.
func (d *Dispatcher) Return(it Item) bool {
	if d.enterGate(&it) && d.tryClaim(&it) {
		d.pushGranted(it)
	}
	return true
}

// Done ends an item on its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it Item, again bool) {
	d.settle()
	d.Policy.Done(slot, it, again)
	d.returnClaim(&it)
	d.leaveGate(it.Key, true)
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
	called := e.queue == &d.granted
	passed := called || e.queue.line != nil
	if it = d.unparkEntry(e); called {
		d.returnClaim(&it)
	}
	if passed {
		d.leaveGate(it.Key, false)
	} else {
		d.admitParked(d.byKey[it.Key])
	}
	return true
}

// Abandon gives up what is queued and parked, since nothing starts any more.
func (d *Dispatcher) Abandon() {
	d.gates, d.lines, d.overdue = gates{}, nil, nil
	d.parked, d.granted = store{}, queue{}
}
