package sched

import "time"

// gates limit how many items of a key are held, and how often one starts.
type gates struct {
	byKey   map[uint64]*gate // by key; nil without limits of keys
	gateDue *Delay           // of keys: when the next parked item may start or, without any, any start
}

// gate is a key with an item that has passed or is parked, or whose rate does not allow any
// start.
type gate struct {
	key    uint64
	inside int // items that have not ended
	rate   Rate
	parked queue // in order of rank and of ID
}

// enterGate reports whether an item passes the gate of its key. If not, it is parked.
func (d *Dispatcher) enterGate(it *Item) bool {
	if d.byKey == nil {
		return true
	}
	g := d.byKey[it.Key]
	if g == nil {
		g = &gate{key: it.Key, rate: d.limits.KeyRate}
		d.byKey[it.Key] = g
	}
	if d.gateWait(g) == ForSlot && (g.parked.len() == 0 || it.Rank <= g.parked.first().Rank) {
		g.inside++
		g.rate.pending++
		return true
	}
	d.park(&g.parked, it)
	d.admitParked(g)
	return false
}

// gateWait returns why a gate lets none pass, or ForSlot if it does.
func (d *Dispatcher) gateWait(g *gate) Wait {
	if n := d.limits.PerKey; n > 0 && g.inside >= n {
		return ForKey
	}
	if ok, _ := g.rate.allows(d.now); !ok {
		return ForKeyRate
	}
	return ForSlot
}

// admitParked has parked items of a key pass for which there is room, and forgets a gate that is of
// no use.
func (d *Dispatcher) admitParked(g *gate) {
	for g.parked.len() > 0 && d.gateWait(g) == ForSlot {
		g.inside++
		g.rate.pending++
		if it := d.unpark(&g.parked); d.tryClaim(&it) {
			d.pushGranted(it)
		}
	}
	_, at := g.rate.allows(d.now)
	if g.parked.len() == 0 {
		at = g.rate.next.Add(g.rate.Slack)
	}
	if d.now.Before(at) {
		d.gateDue.Push(g.key, at)
		return
	}
	if d.gateDue.Remove(g.key); g.inside+g.parked.len() == 0 {
		delete(d.byKey, g.key)
	}
}

// admitDue calls the items whose time has come, and says when the next one's comes.
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

// leaveGate notes that an item that has passed has ended, perhaps before it has started.
func (d *Dispatcher) leaveGate(key uint64, started bool) {
	if g := d.byKey[key]; g != nil {
		g.inside--
		if !started {
			g.rate.pending--
		}
		d.admitParked(g)
	}
}
