package sched

import "slices"

// Claim is the need of an item that takes more than a place. It must not change.
type Claim struct {
	Places int // on one host; no more than the largest host has; less than 1 counts as 1
	Units  []Units
}

// Units are N units of a limit: one of Limits.Caps or, for other names, of a Slot.Stock.
type Units struct {
	Name string // not empty
	N    int    // in a claim, from 1 to all units; for a limit of hosts, it may exceed them
}

// patience is how many items, for each place in the slots, may overtake a waiting item before its
// claim is reserved.
const patience = 4

// claims holds the items that wait for their claims, and counts the units that are taken. The
// rules:
//
//  1. An item takes everything that it claims at once. Until then it holds none of it.
//  2. Items with the same claim form a line. The first item of a line goes when it can.
//  3. Items outside the line overtake its first item if they start and use part of the same claim.
//     The line is overdue after patience times the number of places have done so, or as soon as
//     an item of a higher rank would.
//  4. The claim of an overdue line is reserved: no other item takes any of it. If several overdue
//     lines compete, the first one wins, in order of the rank and ID of their first items.
//  5. An item that claims several places, or units of a host, takes all of them on one host. They are
//     reserved on one host, but the item may still start on another.
type claims struct {
	caps    Stock
	lines   []*line // none is empty
	overdue []*line // in order, as of the latest serveLines
}

// counter counts the units of a limit.
type counter struct{ all, taken int }

// line holds the items with one claim, in order of rank and ID.
type line struct {
	claim      *Claim
	queue      queue
	overtaken  int   // how many items have overtaken the first one
	reservedOn *host // host of the reserved places and units of hosts; nil for none
}

// placement holds the places of an item on a host.
type placement struct {
	host  *host
	slots []int // one for each place; the first one is the item's own
}

// places stands for the places of a host, in arguments that otherwise are the name of a limit.
const places = ""

// counter returns the counter of a limit, on host at if hosts offer the limit; nil if there is
// none.
func (c *claims) counter(limit string, at *host) *counter {
	if own := c.caps[limit]; own != nil || at == nil || at.stock == nil {
		return own
	}
	return (*at.stock)[limit]
}

// usesHostUnits reports whether a claim includes units of hosts.
func (c *claims) usesHostUnits(of *Claim) bool {
	return slices.ContainsFunc(of.Units, func(u Units) bool { return c.caps[u.Name] == nil })
}

// stranded reports whether a claim includes units that no host has.
func (d *Dispatcher) stranded(c *Claim) bool { return d.usesHostUnits(c) && d.Width(c) == 0 }

// needsHost reports whether an item with this claim must find everything on one host.
func (c *claims) needsHost(of *Claim) bool { return of.wide() || c.usesHostUnits(of) }

// wide reports whether c claims several places.
func (c *Claim) wide() bool { return c != nil && c.Places > 1 }

// equals reports whether both claims are the same. other may be nil.
func (c *Claim) equals(other *Claim) bool {
	return other != nil && c.Places == other.Places && slices.Equal(c.Units, other.Units)
}

// has reports whether c claims units of a limit or, for the constant places, several places.
func (c *Claim) has(limit string) bool {
	return limit == places && c.wide() || slices.ContainsFunc(c.Units, func(u Units) bool { return u.Name == limit })
}

// shares reports whether both claims include units of the same limit.
func (c *Claim) shares(other *Claim) bool {
	return other != nil && slices.ContainsFunc(c.Units, func(u Units) bool { return other.has(u.Name) })
}

// line returns the line of a claim, or nil.
func (c *claims) line(of *Claim) *line {
	for _, l := range c.lines {
		if l.claim.equals(of) {
			return l
		}
	}
	return nil
}

// reserved reports whether units of a limit, or the places of a host, are reserved for an overdue
// line before l. If l is nil, any overdue line counts.
func (c *claims) reserved(limit string, at *host, l *line) bool {
	for _, late := range c.overdue {
		if late == l {
			break
		}
		if late.claim.has(limit) && (late.reservedOn == at || c.caps[limit] != nil) {
			return true
		}
	}
	return false
}

// enough reports whether the claimed units are free, and not reserved for a line before l. Units of
// hosts are looked up on host at.
func (c *claims) enough(of *Claim, l *line, at *host) bool {
	for _, u := range of.Units {
		if n := c.counter(u.Name, at); n == nil || n.taken+u.N > n.all || c.reserved(u.Name, at, l) {
			return false
		}
	}
	return true
}

// hostHas reports whether a host has the claimed units, free or taken.
func (c *claims) hostHas(of *Claim, at *host) bool {
	for _, u := range of.Units {
		if n := c.counter(u.Name, at); n == nil || u.N > n.all {
			return false
		}
	}
	return true
}

// addTaken counts the claimed units as taken or, if by is -1, as free. Units of hosts are counted
// on host at.
func (c *claims) addTaken(of *Claim, by int, at *host) {
	for _, u := range of.Units {
		c.counter(u.Name, at).taken += by * u.N
	}
}

// tryClaim takes an item's claim, and reports whether it could. If not, it parks the item in a
// line.
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

// returnClaim gives back all that an item has taken, except the place in its own slot.
func (d *Dispatcher) returnClaim(it *Item) {
	if it.Claim == nil {
		return
	}
	var at *host
	if s := it.placed; s != nil {
		at = s.host
		for _, id := range s.slots[1:] {
			d.Policy.Done(id, it, false)
		}
		it.placed = nil
	}
	d.addTaken(it.Claim, -1, at)
}

// serveLines grants the first items of lines their claims, as long as there is enough. If the next
// such item needs a host, serveLines stops and returns its line and the host.
func (d *Dispatcher) serveLines() (best *line, at *host) {
	for len(d.lines) > 0 {
		d.reserve()
		best = nil
		for _, l := range d.lines {
			if h, ok := d.findHost(l); ok {
				best, at = l, h
				break
			}
		}
		if best == nil || d.needsHost(best.claim) {
			return best, at
		}
		d.addTaken(best.claim, 1, nil)
		d.granted.insert(d.unpark(&best.queue))
	}
	d.overdue = d.overdue[:0]
	return nil, nil
}

// Width returns how many places an item with claim c takes; 0 if no host has the claimed units.
func (d *Dispatcher) Width(c *Claim) (n int) {
	for _, h := range d.slots.hosts {
		if d.hostHas(c, h) {
			n = max(n, min(max(c.Places, 1), h.all))
		}
	}
	return n
}

// reserve sorts the lines by their first items, and finds the overdue ones. It chooses the host where
// the claim of each is reserved: the first one that is big enough, and has neither places nor units of
// the claim reserved for a line before. No places are reserved while a granted item holds units that
// the line claims, too, since that item might then find no slot.
func (d *Dispatcher) reserve() {
	d.overdue = d.overdue[:0]
	slices.SortFunc(d.lines, func(a, b *line) int { return a.queue.first().compare(b.queue.first()) })
	for _, l := range d.lines {
		if l.reservedOn = nil; l.overtaken < patience*d.slots.capacity {
			continue
		}
		news := slices.ContainsFunc(l.claim.Units, func(u Units) bool { return d.caps[u.Name] != nil && !d.reserved(u.Name, nil, nil) })
		holds := l.claim.wide() && slices.ContainsFunc(d.granted.items[d.granted.head:], func(it *Item) bool { return l.claim.shares(it.Claim) })
		for _, h := range d.slots.hosts {
			if !holds && h.all >= d.Width(l.claim) && d.hostHas(l.claim, h) && !d.reserved(places, h, l) &&
				!slices.ContainsFunc(l.claim.Units, func(u Units) bool { return d.reserved(u.Name, h, l) }) {
				l.reservedOn = h
				break
			}
		}
		if news || holds || l.reservedOn != nil { // otherwise lines before it have all that it claims reserved
			d.overdue = append(d.overdue, l)
		}
	}
}

// leaveParked takes a parked or granted item out of its queue.
func (d *Dispatcher) leaveParked(it *Item) {
	l := it.queue.line
	if l != nil && it == l.queue.first() {
		l.overtaken = 0
	}
	it.leave()
	if l != nil && l.queue.len() == 0 {
		d.lines = slices.DeleteFunc(d.lines, func(o *line) bool { return o == l })
	}
}

// startPlaced gives the first item of a line the lowest free places on a host. It returns the item
// and its own slot, the lowest one; 0 if AllowSlot forbids that slot.
func (d *Dispatcher) startPlaced(l *line, at *host) (it *Item, in int) {
	left, s := d.Width(l.claim), &placement{host: at}
	for _, id := range at.ids {
		for x := d.slots.byID[id]; left > 0 && x.held < x.Places; left-- {
			s.slots = append(s.slots, id)
			x.held++
		}
	}
	in = s.slots[0]
	if d.limits.AllowSlot != nil && !d.limits.AllowSlot(in) {
		return nil, 0
	}
	it = d.unpark(&l.queue)
	d.addTaken(it.Claim, 1, at)
	for _, id := range s.slots {
		d.Policy.Take(id, it)
	}
	it.placed = s
	return it, in
}

// reserveAgainst makes the lines overdue whose first items have a lower rank than it, but would be
// overtaken if it starts. It reports whether there were any that were not overdue yet.
func (d *Dispatcher) reserveAgainst(it *Item) (any bool) {
	for _, l := range d.lines {
		if l.overtaken < patience*d.slots.capacity && l.queue.first().Rank < it.Rank && l.overtakenBy(it.Claim) {
			l.overtaken, any = patience*d.slots.capacity, true
		}
	}
	return any
}

// overtakenBy reports whether an item with claim c, which may be nil, overtakes the first item of l
// if it starts.
func (l *line) overtakenBy(c *Claim) bool {
	return !l.claim.equals(c) && (l.claim.wide() || l.claim.shares(c))
}
