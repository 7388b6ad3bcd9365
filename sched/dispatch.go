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

	// Allow reports whether an item may start, and May whether a slot may take one, for reasons
	// of the caller's. Nil is always.
	Allow func(now time.Time) bool
	May   func(slot int) bool
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
	slots  []berth // by ID
	all    int     // places in the slots that are in
	held   int     // places that items have in them
	gates          // of keys
	claims
	parked store // the note of an item is inLine if it is in a line, and else it is in a gate
	called map[uint64]call

	best, worst int64 // the priorities that were queued since nothing waited
	started     int64 // the items that started since these differ
}

// berth is a slot as a Dispatcher sees it.
type berth struct {
	site
	cap, held int // cap is 0 while the slot is not in; it may hold items that it held before it left
}

// call is an item that was parked and is queued again: by a gate, or by a line.
type call struct {
	gate *gate // nil if it has all that it claims
	item Item
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
		Policy: p, limits: limits, called: map[uint64]call{}, claims: newClaims(limits.Caps),
	}
	if p.Serial() {
		d.limits.PerKey = 0
	}
	if d.limits.PerKey > 0 || d.limits.KeyRate.Every > 0 {
		d.gates = newGates()
	}
	return d
}

// Join adds a slot, as Policy.Join does.
func (d *Dispatcher) Join(s Slot) {
	d.Policy.Join(s)
	for len(d.slots) <= s.ID {
		d.slots = append(d.slots, berth{})
	}
	at := &d.slots[s.ID]
	at.site, at.cap = site{s.Host, s.Stock}, max(s.Cap, 1)
	d.all += at.cap
	d.held += at.held
}

// Leave removes a slot, as Policy.Leave does.
func (d *Dispatcher) Leave(id int) {
	d.Policy.Leave(id)
	at := &d.slots[id]
	d.all -= at.cap
	d.held -= at.held
	at.cap = 0
}

// Wide returns the item for which places are kept, or 0.
func (d *Dispatcher) Wide() uint64 {
	if d.wide == nil {
		return 0
	}
	return d.wide.queue.min().ID
}

// Waits returns what a parked item waits for.
func (d *Dispatcher) Waits(id uint64) Wait {
	e := d.parked.find(id)
	if e.note == inLine {
		return d.lacks(d.line(e.Claim))
	}
	return d.keeps(d.of[e.Key])
}

// Held returns how many places items have in the slots that are in.
func (d *Dispatcher) Held() int { return d.held }

// Next returns the item that starts, and its slot, which holds it from now on. If none does,
// the slot is 0, and wait is why: until Again, another method is called, or Allow or May has
// another answer.
func (d *Dispatcher) Next(now time.Time) (it Item, slot int, wait Wait) {
	d.now = now
	d.recall()
	for {
		l := d.serve()
		if l == nil {
			if slot = d.Policy.Ready(); slot == 0 {
				return it, 0, ForSlot
			}
		}
		if wait = d.early(); wait != ForSlot {
			return it, 0, wait
		}
		if l != nil {
			it, slot = d.place(l)
		} else {
			it, slot = d.pop(slot)
		}
		switch {
		case slot == 0 && d.wide != nil && l == nil:
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
func (d *Dispatcher) early() (wait Wait) {
	for i, r := range [...]*Rate{&d.limits.Delay, &d.limits.Rate} {
		if r.free.IsZero() {
			continue
		}
		if at := r.at(); d.now.Before(at) && (wait == ForSlot || at.After(d.again)) {
			d.again, wait = at, [...]Wait{ForDelay, ForRate}[i]
		}
	}
	if wait == ForSlot && d.limits.Allow != nil && !d.limits.Allow(d.now) {
		wait = ForMachine
	}
	return wait
}

// pop takes an item out of the policy for a slot that is ready or, if that may take none, for
// another one.
func (d *Dispatcher) pop(slot int) (it Item, in int) {
	if d.open(slot) {
		it, _ = d.Policy.Pop(slot)
		d.hold(slot)
		return it, slot
	}
	for slot = range d.slots {
		if d.slots[slot].cap > 0 && d.open(slot) {
			if it, ok := d.Policy.Pop(slot); ok {
				d.hold(slot)
				return it, slot
			}
		}
	}
	return it, 0
}

// open reports whether a slot may take an item that takes one place.
func (d *Dispatcher) open(slot int) bool {
	return (d.wide == nil || d.slots[slot].site != d.site) && (d.limits.May == nil || d.limits.May(slot))
}

// hold notes that a slot holds one more place.
func (d *Dispatcher) hold(slot int) {
	d.slots[slot].held++
	d.held++
}

// admit reports whether an item that the policy has given to a slot may start. If not, it is
// parked.
func (d *Dispatcher) admit(it *Item, slot int) bool {
	it.Rank = (it.Rank + 1) >> 1 // see Push and Return
	c, called := d.called[it.ID]
	if called {
		it.Rank = c.item.Rank
	}
	if d.keepFrom(it) {
		d.release(slot, *it, true)
		if called {
			d.requeue(c.item, c.gate)
		} else {
			d.Return(*it)
		}
		return false
	}
	if called {
		delete(d.called, it.ID)
		if c.gate == nil {
			d.waits(it.Key, -1)
			return true
		}
		c.gate.called--
	}
	if d.pass(it) && d.grant(it) {
		return true
	}
	d.release(slot, *it, true)
	return false
}

// park parks an item in a queue.
func (d *Dispatcher) park(q *queue, it *Item, note int32) {
	d.parked.insert(q, it).note = note
	d.limits.Parked(it.ID, true)
}

// unpark takes the first item out of a queue.
func (d *Dispatcher) unpark(q *queue) Item {
	it := d.parked.cut(q.min())
	d.limits.Parked(it.ID, false)
	return it
}

// requeue queues an item again that was parked. A serial policy would have it wait, with all that
// it has taken, for one of its key that was given a lower rank: there it goes before all others.
func (d *Dispatcher) requeue(it Item, by *gate) {
	d.called[it.ID] = call{by, it}
	if it.Rank = 2*it.Rank - 1; d.Serial() {
		it.Rank = math.MinInt64
	}
	d.Policy.Push(it)
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
// all others of its rank.
func (d *Dispatcher) Return(it Item) bool {
	it.Rank = 2*it.Rank - 1
	return d.Policy.Push(it)
}

// Done ends an item on its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it Item, again bool) {
	d.release(slot, it, again)
	d.giveBack(&it)
	d.unpass(it.Key, false)
}

// release takes an item from its slots.
func (d *Dispatcher) release(slot int, it Item, again bool) {
	d.Policy.Done(slot, it, again)
	at := &d.slots[slot]
	at.held--
	if at.cap > 0 {
		d.held--
	}
}

// Remove removes an item that is queued, parked or awaited, and reports whether it was one of
// the first two.
func (d *Dispatcher) Remove(id uint64) bool {
	c, called := d.called[id]
	e := d.parked.find(id)
	waited := e != nil
	if !waited || d.Serial() { // it may be awaited there
		waited = d.Policy.Remove(id) || waited
	}
	switch {
	case e != nil && e.note == inLine:
		d.cut(d.line(e.Claim), e)
		d.unpass(e.Key, true)
	case e != nil:
		d.call(d.of[d.parked.cut(e).Key])
	case called && c.gate == nil:
		d.giveBack(&c.item)
		d.unpass(c.item.Key, true)
	case called:
		c.gate.called--
		d.call(c.gate)
	}
	delete(d.called, id)
	return waited
}

// Abandon gives up what is queued and parked, since nothing starts any more.
func (d *Dispatcher) Abandon() {
	d.gates, d.lines, d.wide = gates{}, nil, nil
	d.parked = store{}
	clear(d.called)
}
