package sched

import "time"

// gates limit how many items of a key slots hold, and how often an item of a key starts.
type gates struct {
	byKey   map[uint64]*gate // nil without such limits
	gateDue Delay            // keys by the time of their next start; without parked items, by the time when their gate has no more effect
}

// gate is the state of a key with items inside or parked, or with a recent start that its rate
// still counts.
type gate struct {
	due    Timer // its ID is the key
	inside int   // items that have passed the gate and not ended
	rate   Rate
	parked queue // in order of rank and ID
}

// pass takes an item through the gate of its key, if keys have gates and as soon as it is open.
func (d *Dispatcher) pass(it *Item) {
	if d.byKey == nil {
		d.grant(it)
		return
	}
	g := d.byKey[it.Key]
	if g == nil {
		g = &gate{due: Timer{ID: it.Key}, rate: d.limits.KeyRate}
		d.byKey[it.Key] = g
	}
	d.park(&g.parked, it)
	d.admitParked(g)
}

// gateWait returns why a gate is closed, or ForSlot if it is open.
func (d *Dispatcher) gateWait(g *gate) Wait {
	if n := d.limits.PerKey; n > 0 && g.inside >= n {
		return ForKey
	}
	if ok, _ := g.rate.allows(d.now); !ok {
		return ForKeyRate
	}
	return ForSlot
}

// admitParked takes parked items through their gate while it is open, and forgets a gate that has
// no effect.
func (d *Dispatcher) admitParked(g *gate) {
	for g.parked.len() > 0 && d.gateWait(g) == ForSlot {
		it := g.parked.first()
		d.unpark(it)
		if d.grant(it) {
			g.inside++
			g.rate.pending++
		}
	}
	_, at := g.rate.allows(d.now)
	if g.parked.len() == 0 {
		at = g.rate.next.Add(g.rate.Slack)
	}
	if d.now.Before(at) {
		d.gateDue.Push(&g.due, at)
		return
	}
	if g.due.Stop(); g.inside+g.parked.len() == 0 {
		delete(d.byKey, g.due.ID)
	}
}

// admitDue admits the parked items that are due, and notes when the next one is.
func (d *Dispatcher) admitDue() {
	d.again = time.Time{}
	if d.byKey == nil {
		return
	}
	for key, ok := d.gateDue.Due(d.now); ok; key, ok = d.gateDue.Due(d.now) {
		d.admitParked(d.byKey[key])
	}
	d.again, _ = d.gateDue.Next()
}

// leaveGate notes that an item that has passed the gate has ended, perhaps before it started.
func (d *Dispatcher) leaveGate(key uint64, started bool) {
	if g := d.byKey[key]; g != nil {
		g.inside--
		if !started {
			g.rate.pending--
		}
		d.admitParked(g)
	}
}
