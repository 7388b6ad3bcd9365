package sched

import (
	"slices"
	"time"
)

// ManualRank separates ranks given by hand, which are ManualRank and above or -ManualRank and
// below, from priorities. The higher a priority, the lower its rank.
const ManualRank = 1 << 32

// Limits restrict which items of a policy a Dispatcher starts. They count the items that slots
// hold.
type Limits struct {
	PerKey        int     // items of one key at once; 0 for no limit
	KeyRate       Rate    // of the starts of one key
	Delay         Rate    // of all starts
	Rate          Rate    // of all starts, too
	Caps          []Units // all units of the run's own limits by name
	ReportsStarts bool    // Started reports the start of an item; otherwise an item starts when Next returns it

	// Allow reports whether an item may start now and, if not, when it may; zero if that is
	// unknown. AllowSlot reports whether a slot may take an item.
	Allow     func(now time.Time) (ok bool, at time.Time)
	AllowSlot func(slot int) bool
	// AllowItem reports whether an item may start, which may depend on more than free slots. If
	// not, the item becomes awaited. Nil allows everything.
	AllowItem func(id uint64) bool
	// Parked is called when an item is parked, and when it is no longer parked.
	Parked func(it *Item, parked bool)
}

// Dispatcher answers one question: which item starts now and, if none does, why not and when to ask
// again. The package comment explains how. NewDispatcher makes one.
type Dispatcher struct {
	Policy
	limits Limits
	now    time.Time
	again  time.Time
	slots  *slots // of the policy
	gates
	claims
}

// Wait says why an item waits, in the words of task.Cause.
type Wait string

// The reasons.
const (
	ForSlot    Wait = "workers"  // for a slot that takes it
	ForKey     Wait = "limit"    // Limits.PerKey
	ForKeyRate Wait = "key-rate" // Limits.KeyRate
	ForUnits   Wait = "needs"    // Claim.Units
	ForPlaces  Wait = "places"   // Claim.Places, its own or the places reserved for another item
	ForDelay   Wait = "delay"    // Limits.Delay
	ForRate    Wait = "rate"     // Limits.Rate
	ForToken   Wait = "token"    // Limits.AllowSlot
	ForMachine Wait = "load"     // Limits.Allow
	ForStock   Wait = "offers"   // Slot.Offers with the units that it claims
)

// NewDispatcher returns a Dispatcher for a policy without items and slots. A serial policy limits
// each key by itself, so PerKey is ignored.
func NewDispatcher(p Policy, limits Limits) *Dispatcher {
	d := &Dispatcher{
		Policy: p, slots: p.base(), limits: limits,
		claims: claims{caps: newStock(limits.Caps), reserved: map[any]*line{}},
	}
	if p.Serial() {
		d.limits.PerKey = 0
	}
	if d.limits.PerKey > 0 || d.limits.KeyRate.Every > 0 {
		d.byKey = map[uint64]*gate{}
	}
	return d
}

// ReservedFor returns the item with reserved places, or 0. It must follow Next directly.
func (d *Dispatcher) ReservedFor() uint64 {
	for _, h := range d.slots.hosts {
		if l := d.reserved[h]; l != nil {
			return l.queue.first().ID
		}
	}
	return 0
}

// Waits returns why a parked item waits.
func (d *Dispatcher) Waits(it *Item) Wait {
	l := it.queue.line
	switch {
	case l == nil:
		return d.gateWait(d.byKey[it.Key])
	case l.early:
		return ForStock
	}
	_, slot := d.serve(l, false)
	switch {
	case slot > 0:
		return ForSlot
	case l.claim.wide() && slices.ContainsFunc(d.slots.hosts, func(h *host) bool { return d.enough(l.claim, l, h) }):
		return ForPlaces
	case d.enough(l.claim, l, nil):
		return ForSlot
	}
	return ForUnits
}

// settle updates the policy if slots have joined or left.
func (d *Dispatcher) settle() {
	if d.slots.changed {
		d.slots.changed = false
		d.Policy.settle()
		for _, l := range slices.Clone(d.lines) {
			early := d.stranded(l.claim)
			if early == l.early {
				continue
			}
			items := slices.Clone(l.queue.items[l.queue.head:])
			for _, it := range items {
				d.unpark(it)
			}
			for _, it := range items {
				if d.pass(it); early {
					d.leaveGate(it.Key, false)
				}
			}
		}
	}
}

// Ready returns a slot with free capacity and a queued item for it; 0 for none.
func (d *Dispatcher) Ready() int {
	d.settle()
	return d.slots.leastLoaded(func(id int) bool { return d.peek(id) != nil })
}

// Free returns the emptiest slot that would take an item now, if it were queued alone; 0 for none.
func (d *Dispatcher) Free(it *Item) int {
	d.settle()
	return d.slots.leastLoaded(func(id int) bool { return d.fits(it, id) })
}

// Held returns how many places items take in the slots that are in.
func (d *Dispatcher) Held() int { return d.slots.places(d.slots.ids).taken }

// Next returns the item that starts now, and its slot, which then holds the item. If no item
// starts, slot is 0 and wait says why. That answer holds until the time Again, until another method
// is called, or until Allow or AllowSlot would answer otherwise.
func (d *Dispatcher) Next(now time.Time) (it *Item, slot int, wait Wait) {
	d.now = now
	d.settle()
	d.admitDue()
	for {
		d.reserve()
		parked, _ := d.serveLines(false)
		if slot = d.Ready(); slot == 0 && parked == nil {
			return nil, 0, ForSlot
		}
		if wait = d.globalWait(); wait != ForSlot {
			return nil, 0, wait
		}
		if slot > 0 && !d.slotOpen(slot) {
			slot = d.slots.leastLoaded(func(id int) bool { return d.slotOpen(id) && d.peek(id) != nil })
		}
		it = d.peek(slot)
		parked, at := d.serveLines(true)
		first := at > 0 && (slot == 0 || parked.Rank <= it.Rank)
		if first {
			it, slot = parked, at
		}
		switch {
		case slot == 0 && d.ReservedFor() > 0:
			return nil, 0, ForPlaces
		case slot == 0:
			return nil, 0, ForToken
		case d.reserveAgainst(it):
			continue
		case first:
			d.unpark(it)
		case !d.choose(it):
			continue
		}
		d.start(it, slot)
		return it, slot, ForSlot
	}
}

// Again returns when to call Next again if nothing else happens; zero for never.
func (d *Dispatcher) Again() time.Time { return d.again }

// globalWait returns the reason why nothing may start; ForSlot for none.
func (d *Dispatcher) globalWait() Wait {
	wait := ForSlot
	for i, r := range [...]*Rate{&d.limits.Delay, &d.limits.Rate} {
		if ok, at := r.allows(d.now); !ok && (wait == ForSlot || at.After(d.again)) {
			wait, d.again = [...]Wait{ForDelay, ForRate}[i], at
		}
	}
	if wait == ForSlot {
		if ok, at := d.limits.Allow(d.now); !ok {
			wait, d.again = ForMachine, at
		}
	}
	return wait
}

// slotOpen reports whether a slot with free capacity may take an item that needs one place.
func (d *Dispatcher) slotOpen(slot int) bool {
	return d.open(d.slots.byID[slot].host, nil) && d.limits.AllowSlot(slot)
}

// choose takes an item out of its queue, and reports whether it may start. If not, the item is parked or
// awaited.
func (d *Dispatcher) choose(it *Item) bool {
	d.pop(it, true)
	switch {
	case d.limits.AllowItem != nil && !d.limits.AllowItem(it.ID):
		return false
	case d.byKey == nil && it.Claim == nil:
		return true
	}
	d.pass(it)
	return false
}

// park parks an item in a queue.
func (d *Dispatcher) park(q *queue, it *Item) {
	q.insert(it)
	d.limits.Parked(it, true)
}

// start starts an item in a slot, and counts that.
func (d *Dispatcher) start(it *Item, slot int) {
	d.Take(slot, it)
	if it.Claim != nil {
		d.takeClaim(it, d.slots.byID[slot].host)
	}
	d.limits.Delay.pending++
	d.limits.Rate.pending++
	if !d.limits.ReportsStarts {
		d.Started(d.now, it)
	}
	for _, l := range d.lines {
		if l.overtakenBy(it.Claim) {
			l.overtaken++
		}
	}
}

// Started reports that an item from Next has started, for the rates. It must come before Done.
func (d *Dispatcher) Started(now time.Time, it *Item) {
	d.now = now
	d.limits.Delay.started(now)
	d.limits.Rate.started(now)
	if g := d.byKey[it.Key]; g != nil {
		g.rate.started(now)
		d.admitParked(g)
	}
}

// Push queues an item, as Policy.Push does.
func (d *Dispatcher) Push(it *Item) bool {
	d.settle()
	return d.Policy.Push(it)
}

// Return parks an item that its slot gave back before it had begun. It goes before all others of its
// rank.
func (d *Dispatcher) Return(it *Item) { d.pass(it) }

// Done ends an item in its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it *Item, again bool) {
	d.settle()
	d.Policy.Done(slot, it, again)
	d.returnClaim(it)
	d.leaveGate(it.Key, true)
}

// Remove removes an item that is queued, parked or awaited, and reports whether it was queued or
// parked. No slot may hold it.
func (d *Dispatcher) Remove(it *Item) bool {
	d.settle()
	d.release(it)
	switch g, q := d.byKey[it.Key], it.queue; {
	case q == nil:
		return false
	case q.line != nil:
		d.unpark(it)
		if !q.line.early {
			d.leaveGate(it.Key, false)
		}
	case g != nil && q == &g.parked:
		d.unpark(it)
		d.admitParked(g)
	default:
		d.pop(it, false)
	}
	return true
}

// Abandon gives up the queued and parked items, without removing each. Nothing may start afterwards.
func (d *Dispatcher) Abandon() {
	d.gates, d.lines, d.reserved = gates{}, nil, nil
}
