package sched

import (
	"cmp"
	"slices"
)

// Claim is what an item takes beside a place of a slot. Items share it, and it does not change.
type Claim struct {
	Places int // on one host, at most as many as the host with the most has; less than 1 counts as 1
	Units  []Units
}

// Units are some of the units of a limit. Cap is its index in Limits.Caps or, for one of hosts,
// len(Limits.Caps) and more: the index in Stock goes on from there.
type Units struct{ Cap, N int } // N is from 1 to all, or any number of a limit of hosts

// patience is how many items may pass one that waits for what it claims, for each place there
// is, before that is kept for it.
const patience = 4

// claims holds the items that wait for what they claim, and what is taken. An item takes all at
// once, and waits without any of it. Those with the same claim form a line, whose first item
// goes once there is enough for it. Meanwhile others of its rank or a lower one pass: of those
// that take something that it claims, 4 for each place that there is. From then on, or once an
// item of a higher rank would pass, what it claims is kept for it unless
// another item that has waited so long is before it in order of rank and of ID: one that claims
// units of the same limit or, in case of places, one for which these can be kept.
//
// An item that claims units of a host takes a place there. They are kept for it on one host that
// has as many, which others that have waited so long leave to it; it may still start on another.
type claims struct {
	caps   []counter
	lines  []*line           // none is empty
	wide   *line             // for whose first item places are kept, at site
	site   site              // where it can have the most places
	rooms  []room            // of hosts; valid in serve and place
	extra  map[uint64][]int  // by item: the slots of its other places
	from   map[uint64]*Stock // by item: where its units of a host are from
	late   []*line           // of keep, for reuse
	unused spares[line]
	lists  [][]int // for reuse in extra
}

// counter counts the units of a limit.
type counter struct {
	all, taken int
	keeper     *line // for whose first item they are kept
}

// line holds the items with one claim, in order of rank and of ID.
type line struct {
	claim  *Claim
	queue  queue
	passed int    // how many have passed the first one
	stock  *Stock // where units are kept for it; nil for none
}

// inLine is the note of the items in lines.
const inLine = 1

func newClaims(caps []int) claims {
	return claims{extra: map[uint64][]int{}, from: map[uint64]*Stock{}, caps: counters(caps)}
}

func counters(all []int) []counter {
	list := make([]counter, len(all))
	for i, n := range all {
		list[i].all = n
	}
	return list
}

// counter returns the counter of a limit, which is that of a stock if the limit is one of hosts;
// nil if there is none.
func (c *claims) counter(limit int, stock *Stock) *counter {
	switch own := limit - len(c.caps); {
	case own < 0:
		return &c.caps[limit]
	case stock == nil || own >= len(stock.caps):
		return nil
	default:
		return &stock.caps[own]
	}
}

// local reports whether units of a host are claimed.
func (c *claims) local(of *Claim) bool {
	return slices.ContainsFunc(of.Units, func(u Units) bool { return u.Cap >= len(c.caps) })
}

// placed reports whether an item with this claim cannot start in any slot that has a place.
func (c *claims) placed(of *Claim) bool { return of.wide() || c.local(of) }

// wide reports whether an item with this claim takes several places.
func (c *Claim) wide() bool { return c != nil && c.Places > 1 }

// shares reports whether both claim units of one limit.
func (c *Claim) shares(other *Claim) bool {
	return other != nil && slices.ContainsFunc(c.Units, func(u Units) bool {
		return slices.ContainsFunc(other.Units, func(o Units) bool { return o.Cap == u.Cap })
	})
}

// line returns the line of a claim, or nil.
func (c *claims) line(of *Claim) *line {
	for _, l := range c.lines {
		if l.claim == of {
			return l
		}
	}
	return nil
}

// enough reports whether the units that are claimed are free and not kept for others than l,
// those of a host in its stock.
func (c *claims) enough(of *Claim, l *line, stock *Stock) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Cap, stock)
		return n == nil || n.taken+u.N > n.all || n.keeper != nil && n.keeper != l
	})
}

// possible reports whether a stock has the units of a host that are claimed, free or not.
func (c *claims) possible(of *Claim, stock *Stock) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Cap, stock)
		return n == nil || u.N > n.all
	})
}

// take adds by times what is claimed to what is taken, there in case of units of a host.
func (c *claims) take(of *Claim, by int, stock *Stock) {
	for _, u := range of.Units {
		c.counter(u.Cap, stock).taken += by * u.N
	}
}

// grant reports whether an item has now taken what it claims. If not, it is parked in a line.
func (d *Dispatcher) grant(it *Item) bool {
	if it.Claim == nil {
		return true
	}
	l := d.line(it.Claim)
	if l == nil && !d.placed(it.Claim) && d.enough(it.Claim, nil, nil) {
		d.take(it.Claim, 1, nil)
		return true
	}
	d.waits(it.Key, 1)
	if l == nil {
		l = d.unused.take()
		l.claim, l.passed, l.stock = it.Claim, 0, nil
		d.lines = append(d.lines, l)
	}
	d.park(&l.queue, it, inLine)
	return false
}

// giveBack gives back all that an item has taken but for a place.
func (d *Dispatcher) giveBack(it *Item) {
	if it.Claim == nil {
		return
	}
	d.take(it.Claim, -1, d.from[it.ID])
	delete(d.from, it.ID)
	slots := d.extra[it.ID]
	if slots == nil {
		return
	}
	for _, id := range slots {
		d.release(id, *it, false)
	}
	delete(d.extra, it.ID)
	d.lists = append(d.lists, slots[:0])
}

// serve queues the items again that are first in their lines and have enough, and takes that for
// them. If the next one has to be placed, and can be, it returns its line.
func (d *Dispatcher) serve() *line {
	if len(d.lines) == 0 {
		return nil
	}
	d.measure()
	d.keep()
	for {
		var best *line
		for _, l := range d.lines {
			if d.lacks(l) == ForSlot && (best == nil || d.compare(l, best) < 0) {
				best = l
			}
		}
		if best == nil || d.placed(best.claim) {
			return best
		}
		d.take(best.claim, 1, nil)
		d.requeue(d.first(best), nil)
	}
}

// compare compares lines by the order of their first items.
func (d *Dispatcher) compare(a, b *line) int {
	x, y := a.queue.min(), b.queue.min()
	return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.ID, y.ID))
}

// lacks returns what the first item of a line waits for, or ForSlot if it need not.
func (d *Dispatcher) lacks(l *line) Wait {
	if !d.placed(l.claim) {
		if d.enough(l.claim, l, nil) {
			return ForSlot
		}
		return ForUnits
	}
	_, wait := d.spot(l)
	return wait
}

// Width returns how many places an item takes.
func (d *Dispatcher) Width(c *Claim) int {
	d.measure()
	return d.width(c)
}

// width is Width while rooms is valid.
func (d *Dispatcher) width(c *Claim) int {
	if !c.wide() {
		return 1
	}
	return min(c.Places, max(1, d.widest(c).all))
}

// widest returns the room with the most places of those that have what is claimed.
func (d *Dispatcher) widest(c *Claim) (most room) {
	for _, r := range d.rooms {
		if r.all > most.all && d.possible(c, r.stock) {
			most = r
		}
	}
	return most
}

// keep notes for whom units and places are kept: for the first items of the lines that have waited
// so long, in order.
func (d *Dispatcher) keep() {
	for i := range d.caps {
		d.caps[i].keeper = nil
	}
	for _, r := range d.rooms {
		for i := range r.stock.counters() {
			r.stock.caps[i].keeper = nil
		}
	}
	d.late = d.late[:0]
	for _, l := range d.lines {
		if l.stock = nil; l.passed >= patience*d.all && d.widest(l.claim).all > 0 { // nothing is kept for what no host has
			d.late = append(d.late, l)
		}
	}
	slices.SortFunc(d.late, d.compare)
	last := d.wide
	d.wide = nil
	for _, l := range d.late {
		at := d.widest(l.claim).site
		if d.local(l.claim) {
			at = d.home(l)
			l.stock = at.stock
		}
		all := true
		for _, u := range l.claim.Units {
			n := d.counter(u.Cap, l.stock)
			if n != nil && n.keeper == nil {
				n.keeper = l
			}
			all = all && n != nil && n.keeper == l
		}
		if l.claim.wide() && all && d.wide == nil {
			d.wide, d.site = l, at
		}
	}
	if d.wide != nil && d.wide != last {
		d.recant(d.wide)
	}
}

// recant parks the items again that a line has queued and that have what the first one of l
// claims: while places are kept for that, they cannot start.
func (d *Dispatcher) recant(l *line) {
	for id, c := range d.called {
		if it := c.item; c.gate == nil && l.claim.shares(it.Claim) {
			delete(d.called, id)
			d.Policy.Remove(id)
			d.take(it.Claim, -1, nil)
			d.waits(it.Key, -1)
			d.grant(&it)
		}
	}
}

// first takes the first item out of a line.
func (d *Dispatcher) first(l *line) Item {
	it := l.queue.min().Item
	d.limits.Parked(it.ID, false)
	d.cut(l, l.queue.min())
	return it
}

// cut takes an item out of a line.
func (d *Dispatcher) cut(l *line, e *entry) {
	if e == l.queue.min() {
		l.passed, l.stock = 0, nil
	}
	d.parked.cut(e)
	if l.queue.len() > 0 {
		return
	}
	d.lines = slices.DeleteFunc(d.lines, func(o *line) bool { return o == l })
	for i := range d.caps {
		if d.caps[i].keeper == l {
			d.caps[i].keeper = nil
		}
	}
	if d.wide == l {
		d.wide = nil
	}
	l.claim = nil
	d.unused.put(l)
}

// place gives the first item of a line places, the lowest that are free on one host. It returns
// the lowest slot, or 0 if that may take none.
func (d *Dispatcher) place(l *line) (it Item, slot int) {
	at, _ := d.spot(l)
	left := d.width(l.claim)
	free := func(s *berth) bool { return s.site == at.site && s.held < s.cap }
	slot = slices.IndexFunc(d.slots, func(s berth) bool { return free(&s) })
	if d.limits.May != nil && !d.limits.May(slot) {
		return it, 0
	}
	var extra []int
	if n := len(d.lists); n > 0 {
		extra, d.lists = d.lists[n-1], d.lists[:n-1]
	}
	it = d.first(l)
	d.waits(it.Key, -1)
	d.take(it.Claim, 1, at.stock)
	if d.local(it.Claim) {
		d.from[it.ID] = at.stock
	}
	for id := slot; left > 0; id++ {
		for ; left > 0 && free(&d.slots[id]); left-- {
			d.Policy.Take(id, it)
			d.hold(id)
			extra = append(extra, id)
		}
	}
	d.extra[it.ID] = slices.Delete(extra, 0, 1)
	return it, slot
}

// keepFrom has what lines wait for kept that an item would pass though their first items are of
// lower ranks. It reports whether there are such lines, for which nothing was kept before.
func (d *Dispatcher) keepFrom(it *Item) (any bool) {
	for _, l := range d.lines {
		if l.passed < patience*d.all && l.queue.min().Rank < it.Rank && l.passedBy(it.Claim) {
			l.passed, any = patience*d.all, true
		}
	}
	return any
}

// passedBy reports whether an item with a claim, or nil, passes the first one of a line if it
// starts.
func (l *line) passedBy(c *Claim) bool { return l.claim != c && (l.claim.wide() || l.claim.shares(c)) }

// passed notes that an item with a claim, or nil, has started.
func (d *Dispatcher) passed(c *Claim) {
	for _, l := range d.lines {
		if l.passedBy(c) {
			l.passed++
		}
	}
}
