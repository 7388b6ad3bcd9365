package sched

import "slices"

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
// item of a higher rank would pass, its line is late, and what it claims is kept for it: of the
// late lines the first one, in order of rank and of ID, has what several claim.
//
// An item that claims several places or units of a host takes all of them there. They are kept
// for it on one host, which others leave to it; it may still start on another.
type claims struct {
	caps       Stock
	lines      []*line               // none is empty
	overdue    []*line               // those for which something is kept, in order, as of the latest serve
	placements map[uint64]*placement // by item, of those that were placed
}

// counter counts the units of a limit.
type counter struct{ all, taken int }

// line holds the items with one claim, in order of rank and of ID.
type line struct {
	claim      *Claim
	queue      queue
	overtaken  int   // how many have passed the first one
	reservedOn *host // where units of a host and several places are kept for it; nil for none
}

// placement is what an item takes on a host.
type placement struct {
	host  *host
	slots []int // of its places, the first one as its own
}

// places stands for the places of a host where else there is the index of a limit.
const places = -1

func newClaims(caps []int) claims {
	return claims{caps: *NewStock(caps), placements: map[uint64]*placement{}}
}

// counter returns the counter of a limit, which is that of a host if the limit is one of hosts;
// nil if there is none.
func (c *claims) counter(limit int, at *host) *counter {
	switch own := limit - len(c.caps); {
	case own < 0:
		return &c.caps[limit]
	case at == nil || at.stock == nil || own >= len(*at.stock):
		return nil
	default:
		return &(*at.stock)[own]
	}
}

// usesHostUnits reports whether units of a host are claimed.
func (c *claims) usesHostUnits(of *Claim) bool {
	return slices.ContainsFunc(of.Units, func(u Units) bool { return u.Cap >= len(c.caps) })
}

// needsHost reports whether an item with this claim cannot start in any slot that has a place.
func (c *claims) needsHost(of *Claim) bool { return of.wide() || c.usesHostUnits(of) }

// wide reports whether an item with this claim takes several places.
func (c *Claim) wide() bool { return c != nil && c.Places > 1 }

// has reports whether units of a limit, or several places, are claimed.
func (c *Claim) has(limit int) bool {
	return limit == places && c.wide() || slices.ContainsFunc(c.Units, func(u Units) bool { return u.Cap == limit })
}

// shares reports whether both claim units of one limit.
func (c *Claim) shares(other *Claim) bool {
	return other != nil && slices.ContainsFunc(c.Units, func(u Units) bool { return other.has(u.Cap) })
}

// line returns the line of a claim, or nil.
func (c *claims) line(of *Claim) *line {
	if i := slices.IndexFunc(c.lines, func(l *line) bool { return l.claim == of }); i >= 0 {
		return c.lines[i]
	}
	return nil
}

// reserved reports whether units of a limit, or the places of a host, are kept for others than a line.
func (c *claims) reserved(limit int, at *host, l *line) bool {
	for _, late := range c.overdue {
		if late == l {
			break
		}
		if late.claim.has(limit) && (late.reservedOn == at || limit >= 0 && limit < len(c.caps)) {
			return true
		}
	}
	return false
}

// enough reports whether the units that are claimed are free and not kept for others than l,
// those of a host there.
func (c *claims) enough(of *Claim, l *line, at *host) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Cap, at)
		return n == nil || n.taken+u.N > n.all || c.reserved(u.Cap, at, l)
	})
}

// hostHas reports whether a host has the units that are claimed, free or not.
func (c *claims) hostHas(of *Claim, at *host) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Cap, at)
		return n == nil || u.N > n.all
	})
}

// addTaken adds by times what is claimed to what is taken, there in case of units of a host.
func (c *claims) addTaken(of *Claim, by int, at *host) {
	for _, u := range of.Units {
		c.counter(u.Cap, at).taken += by * u.N
	}
}

// tryClaim reports whether an item has now taken what it claims. If not, it is parked in a line.
func (d *Dispatcher) tryClaim(it *Item) bool {
	if it.Claim == nil {
		return true
	}
	l := d.line(it.Claim)
	if l == nil && !d.needsHost(it.Claim) && d.enough(it.Claim, nil, nil) {
		d.addTaken(it.Claim, 1, nil)
		return true
	}
	if l == nil {
		l = &line{claim: it.Claim}
		l.queue.line = l
		d.lines = append(d.lines, l)
	}
	d.park(&l.queue, it)
	return false
}

// returnClaim gives back all that an item has taken but for the place of its slot.
func (d *Dispatcher) returnClaim(it *Item) {
	if it.Claim == nil {
		return
	}
	var at *host
	if s := d.placements[it.ID]; s != nil {
		at = s.host
		for _, id := range s.slots[1:] {
			d.Policy.Done(id, *it, false)
		}
		delete(d.placements, it.ID)
	}
	d.addTaken(it.Claim, -1, at)
}

// serveLines queues the items again that are first in their lines and have enough, and takes that for
// them. If the next one has to be placed, and can be, it returns its line, and where.
func (d *Dispatcher) serveLines() (best *line, at *host) {
	for len(d.lines) > 0 {
		d.reserve()
		best = nil
		for _, l := range d.lines {
			if r, ok := d.findHost(l); ok {
				best, at = l, r
				break
			}
		}
		if best == nil || d.needsHost(best.claim) {
			return best, at
		}
		d.addTaken(best.claim, 1, nil)
		d.pushGranted(d.unpark(&best.queue))
	}
	d.overdue = d.overdue[:0]
	return nil, nil
}

// Width returns how many places an item takes; 0 if no host has what it claims.
func (d *Dispatcher) Width(c *Claim) (n int) {
	for _, r := range d.slots.hosts {
		if d.hostHas(c, r) {
			n = max(n, min(max(c.Places, 1), r.all))
		}
	}
	return n
}

// reserve puts the lines in the order of their first items. It notes which are late, and on which
// hosts something is kept for them: on the first that has what is claimed and keeps none of it for
// others. No places are kept while what is queued again has units that the line claims, since it
// might find no slot then.
func (d *Dispatcher) reserve() {
	d.overdue = d.overdue[:0]
	slices.SortFunc(d.lines, func(a, b *line) int { return a.queue.first().compare(b.queue.first()) })
	for _, l := range d.lines {
		width := d.Width(l.claim)
		if l.reservedOn = nil; l.overtaken < patience*d.slots.capacity || width == 0 {
			continue
		}
		d.overdue = append(d.overdue, l)
		holds := l.claim.wide() && slices.ContainsFunc(d.granted.items[d.granted.head:], func(e *entry) bool { return l.claim.shares(e.Claim) })
		i := slices.IndexFunc(d.slots.hosts, func(r *host) bool {
			return !holds && r.all >= width && d.hostHas(l.claim, r) && !d.reserved(places, r, l) &&
				!slices.ContainsFunc(l.claim.Units, func(u Units) bool { return d.reserved(u.Cap, r, l) })
		})
		if i >= 0 {
			l.reservedOn = d.slots.hosts[i]
		}
	}
}

// unparkEntry takes an item out of a line or a gate.
func (d *Dispatcher) unparkEntry(e *entry) Item {
	l := e.queue.line
	if l != nil && e == l.queue.first() {
		l.overtaken = 0
	}
	it := d.parked.remove(e)
	if l != nil && l.queue.len() == 0 {
		d.lines = slices.DeleteFunc(d.lines, func(o *line) bool { return o == l })
	}
	return it
}

// startPlaced gives the first item of a line places, the lowest that are free on a host. It returns
// the lowest slot, or 0 if that may take none.
func (d *Dispatcher) startPlaced(l *line, at *host) (it Item, in int) {
	left, s := d.Width(l.claim), &placement{host: at}
	for _, id := range at.ids {
		for x := d.slots.all[id]; left > 0 && x.held < x.Cap; left-- {
			s.slots = append(s.slots, id)
			x.held++
		}
	}
	in = s.slots[0]
	if d.limits.AllowSlot != nil && !d.limits.AllowSlot(in) {
		return it, 0
	}
	it = d.unpark(&l.queue)
	d.addTaken(it.Claim, 1, at)
	for _, id := range s.slots {
		d.Policy.Take(id, it)
	}
	d.placements[it.ID] = s
	return it, in
}

// reserveAgainst has what lines wait for kept that an item would pass though their first items are of
// lower ranks. It reports whether there are such lines, for which nothing was kept before.
func (d *Dispatcher) reserveAgainst(it *Item) (any bool) {
	for _, l := range d.lines {
		if l.overtaken < patience*d.slots.capacity && l.queue.first().Rank < it.Rank && l.overtakenBy(it.Claim) {
			l.overtaken, any = patience*d.slots.capacity, true
		}
	}
	return any
}

// overtakenBy reports whether an item with a claim, or nil, passes the first one of a line if it
// starts.
func (l *line) overtakenBy(c *Claim) bool {
	return l.claim != c && (l.claim.wide() || l.claim.shares(c))
}

// countOvertaken notes that an item with a claim, or nil, has started.
func (d *Dispatcher) countOvertaken(c *Claim) {
	for _, l := range d.lines {
		if l.overtakenBy(c) {
			l.overtaken++
		}
	}
}
