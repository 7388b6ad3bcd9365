package sched

import "time"

// Limits are what a Dispatcher minds beside its policy.
type Limits struct {
	PerKey int           // items of a key that slots hold at once; 0 for no limit
	Delay  time.Duration // from one start to the next
	First  time.Time     // nothing starts before

	// May reports whether a slot may take an item, for a reason of the caller's. Nil is always.
	May func(slot int) bool
	// Parked learns that an item is parked, or not any more because it is queued again.
	Parked func(id uint64, parked bool)
}

// Dispatcher answers one question: which item starts now, and if none does, why not, and
// when to ask again. Items are queued in its policy. One that the policy gives out and that
// may not start yet is parked, so that others pass, and is queued again before all others
// of its rank once it may. NewDispatcher makes one.
type Dispatcher struct {
	Policy
	limits Limits
	next   time.Time        // nothing starts before
	last   int              // the highest slot that has joined
	gates  map[uint64]*gate // of keys with an item that is held, parked or called
	called map[uint64]*gate // by ID: of items that were parked and are queued again
	parked slab
	spare  spares[gate]
}

// gate limits how many items of a key are held.
type gate struct {
	key    uint64
	held   int // by slots
	called int // queued again
	parked list
}

// Wait is what an item waits for.
type Wait uint8

// What items wait for.
const (
	ForSlot  Wait = iota // a slot that takes it
	ForKey               // Limits.PerKey
	ForDelay             // Limits.Delay or Limits.First
	ForToken             // Limits.May
)

// NewDispatcher returns a Dispatcher of a policy without items and slots. A policy that is
// serial keeps any limit per key itself.
func NewDispatcher(p Policy, limits Limits) *Dispatcher {
	d := &Dispatcher{Policy: p, limits: limits, next: limits.First, parked: newIndexedSlab()}
	if limits.PerKey > 0 && !p.Serial() {
		d.gates, d.called = map[uint64]*gate{}, map[uint64]*gate{}
	}
	return d
}

// Join adds a slot, as Policy.Join does.
func (d *Dispatcher) Join(s Slot) {
	d.Policy.Join(s)
	d.last = max(d.last, s.ID)
}

// Next returns the item that starts, and its slot, which holds it from now on. If none does,
// the slot is 0, and wait is why: for ForDelay until Again, and else until another method is
// called or May has another answer.
func (d *Dispatcher) Next(now time.Time) (it Item, slot int, wait Wait) {
	for {
		if slot = d.Policy.Ready(); slot == 0 {
			return it, 0, ForSlot
		}
		if now.Before(d.next) {
			return it, 0, ForDelay
		}
		if it, slot = d.pop(slot); slot == 0 {
			return it, 0, ForToken
		}
		if it.Rank = (it.Rank + 1) >> 1; d.admit(&it) {
			d.next = now.Add(d.limits.Delay)
			return it, slot, 0
		}
		d.Policy.Done(slot, it, true)
	}
}

// Again returns when to ask again because of ForDelay.
func (d *Dispatcher) Again() time.Time { return d.next }

// pop takes an item out of the policy for a slot that is ready or, if that may take none, for
// another one.
func (d *Dispatcher) pop(slot int) (it Item, in int) {
	if d.limits.May == nil || d.limits.May(slot) {
		it, _ = d.Policy.Pop(slot)
		return it, slot
	}
	for slot = 1; slot <= d.last; slot++ {

		if d.limits.May(slot) {
			if it, ok := d.Policy.Pop(slot); ok {
				return it, slot
			}
		}
	}
	return it, 0
}

// admit reports whether an item may start. If not, it is parked.
func (d *Dispatcher) admit(it *Item) bool {
	if d.gates == nil {
		return true
	}
	d.uncall(it.ID)
	g := d.gates[it.Key]
	if g == nil {
		g = d.spare.take()
		g.key = it.Key
		d.gates[it.Key] = g
	}
	if g.held < d.limits.PerKey && (g.parked.n == 0 || it.Rank <= d.parked.first(&g.parked).Rank) {
		g.held++
		return true
	}
	d.parked.insert(&g.parked, it)
	d.limits.Parked(it.ID, true)
	d.call(g)
	return false
}

// uncall returns the gate of an item that is queued again, which it is not from now on, or nil.
func (d *Dispatcher) uncall(id uint64) *gate {
	g := d.called[id]
	if g != nil {
		delete(d.called, id)
		g.called--
	}
	return g
}

// call queues parked items of a key for which there is room.
func (d *Dispatcher) call(g *gate) {
	for g.parked.n > 0 && g.held+g.called < d.limits.PerKey {
		it := *d.parked.first(&g.parked)
		d.parked.cut(&g.parked, g.parked.head)
		g.called++
		d.called[it.ID] = g
		d.limits.Parked(it.ID, false)
		it.Rank = 2*it.Rank - 1
		d.Policy.Push(it)
	}
	if g.held+g.called+g.parked.n == 0 {
		delete(d.gates, g.key)
		d.spare.put(g)
	}
}

// Push queues an item, as Policy.Push does.
func (d *Dispatcher) Push(it Item) bool {
	it.Rank *= 2
	return d.Policy.Push(it)
}

// Done ends an item on its slot, as Policy.Done does.
func (d *Dispatcher) Done(slot int, it Item, again bool) {
	d.Policy.Done(slot, it, again)
	if g := d.gates[it.Key]; g != nil {
		g.held--
		d.call(g)
	}
}

// Remove removes an item that is queued, parked or awaited, and reports whether it was one of
// the first two.
func (d *Dispatcher) Remove(id uint64) bool {
	g, i := d.uncall(id), d.parked.where[id]
	waited := i != 0
	if waited {
		g = d.gates[d.parked.nodes[i].Key]
		d.parked.cut(&g.parked, i)
	} else {
		waited = d.Policy.Remove(id)
	}
	if g != nil {
		d.call(g)
	}
	return waited
}

// Abandon gives up what is queued and parked, since nothing starts any more.
func (d *Dispatcher) Abandon() { d.gates, d.called, d.parked = nil, nil, newIndexedSlab() }

// Blocks is an iter.Seq of the queues that hold items, in any order, and then of the keys with
// parked items.
func (d *Dispatcher) Blocks(yield func(Block) bool) {
	for b := range d.Policy.Blocks {
		if !yield(b) {
			return
		}
	}
	for _, g := range d.gates {
		if g.parked.n > 0 && !yield(Block{N: g.parked.n, ID: d.parked.first(&g.parked).ID, OneKey: true, Wait: ForKey}) {
			return
		}
	}
}
