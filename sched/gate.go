package sched

import "time"

// gates limit how many items of a key are held, and how often one starts.
type gates struct {
	of  map[uint64]*gate // by key; nil without limits of keys
	due *Delay           // of keys: when the next parked item may start or, without any, any start
}

// gate is a key with an item that has passed or is parked, or whose rate does not allow any
// start.
type gate struct {
	key    uint64
	passed int // items that have not ended
	rate   Rate
	parked queue // in order of rank and of ID
}

// pass reports whether an item passes the gate of its key. If not, it is parked.
func (d *Dispatcher) pass(it *Item) bool {
	if d.of == nil {
		return true
	}
	g := d.of[it.Key]
	if g == nil {
		g = &gate{key: it.Key, rate: d.limits.KeyRate}
		d.of[it.Key] = g
	}
	if d.closed(g) == ForSlot && (g.parked.len() == 0 || it.Rank <= g.parked.min().Rank) {
		g.passed++
		g.rate.granted++
		return true
	}
	d.park(&g.parked, it)
	d.call(g)
	return false
}

// closed returns why a gate lets none pass, or ForSlot if it does.
func (d *Dispatcher) closed(g *gate) Wait {
	if n := d.limits.PerKey; n > 0 && g.passed >= n {
		return ForKey
	}
	if ok, _ := g.rate.allows(d.now); !ok {
		return ForKeyRate
	}
	return ForSlot
}

// call has parked items of a key pass for which there is room, and forgets a gate that is of
// no use.
func (d *Dispatcher) call(g *gate) {
	for g.parked.len() > 0 && d.closed(g) == ForSlot {
		g.passed++
		g.rate.granted++
		if it := d.unpark(&g.parked); d.grant(&it) {
			d.requeue(it)
		}
	}
	_, at := g.rate.allows(d.now)
	if g.parked.len() == 0 {
		at = g.rate.at.Add(g.rate.Slack)
	}
	if d.now.Before(at) {
		d.due.Push(g.key, at)
		return
	}
	if d.due.Remove(g.key); g.passed+g.parked.len() == 0 {
		delete(d.of, g.key)
	}
}

// recall calls the items whose time has come, and says when the next one's comes.
func (d *Dispatcher) recall() {
	d.again = time.Time{}
	if d.of == nil {
		return
	}
	for key, ok := d.due.Due(d.now); ok; key, ok = d.due.Due(d.now) {
		d.call(d.of[key])
	}
	d.again, _ = d.due.Next()
}

// unpass notes that an item that has passed has ended, perhaps before it has started.
func (d *Dispatcher) unpass(key uint64, started bool) {
	if g := d.of[key]; g != nil {
		g.passed--
		if !started {
			g.rate.granted--
		}
		d.call(g)
	}
}
