package sched

import "slices"

// Claim is the need of an item that takes more than a place. It must not change.
type Claim struct {
	Places int // on one host; no more than the largest host has; less than 1 counts as 1
	Units  []Units
}

// Units are N units of a limit: one of Limits.Caps or, for other names, of Slot.Offers.
type Units struct {
	Name string // not empty
	N    int    // in a claim, from 1 to all units; for a limit of hosts, it may exceed them
}

// patience returns how many items may overtake a waiting item before its claim is reserved.
func (d *Dispatcher) patience() int { return 4 * d.slots.places(d.slots.ids).all }

// claims holds the items that have passed their gates, and counts the units that are taken. The
// rules:
//
//  1. An item takes everything that it claims when it starts. Until then it holds none of it.
//  2. Items with the same claim form a line. The first item that has a slot goes when it can.
//  3. Items outside the line overtake its first item if they start and use part of the same claim.
//     The line is overdue after four times the number of places have done so, or as soon as
//     an item of a higher rank would.
//  4. The claim of an overdue line is reserved: no other item takes any of it. If several overdue
//     lines compete, the first one wins, in order of the rank and ID of their first items.
//  5. An item takes all its places, and its units of a host, on one host. They are reserved on one host,
//     but the item may still start on another.
type claims struct {
	caps     stock
	lines    []*line       // none is empty
	reserved map[any]*line // for which line a counter, or the places of a host, are reserved, as of the latest serveLines
}

// counter counts the units of a limit, or places.
type counter struct{ all, taken int }

// line holds the items with one claim, in order of rank and ID.
type line struct {
	claim     *Claim
	queue     queue
	overtaken int  // how many items have overtaken the first one
	early     bool // it claims units that no host has, so its items are not inside their gates
}

// counter returns the counter of a limit, on host at if hosts offer the limit; nil if there is
// none.
func (c *claims) counter(limit string, at *host) *counter {
	if own := c.caps[limit]; own != nil || at == nil {
		return own
	}
	return at.stock[limit]
}

// stranded reports whether a claim includes units that no host has.
func (d *Dispatcher) stranded(c *Claim) bool {
	return d.Width(c) == 0 && slices.ContainsFunc(c.Units, func(u Units) bool { return d.caps[u.Name] == nil })
}

// wide reports whether c claims several places.
func (c *Claim) wide() bool { return c != nil && c.Places > 1 }

// equals reports whether both claims are the same. other may be nil.
func (c *Claim) equals(other *Claim) bool {
	return other != nil && c.Places == other.Places && slices.Equal(c.Units, other.Units)
}

// shares reports whether both claims include units of the same limit.
func (c *Claim) shares(other *Claim) bool {
	return other != nil && slices.ContainsFunc(c.Units, func(u Units) bool {
		return slices.ContainsFunc(other.Units, func(o Units) bool { return o.Name == u.Name })
	})
}

// open reports whether a counter, or the places of a host, are not reserved for a line other than l.
func (c *claims) open(n any, l *line) bool {
	by := c.reserved[n]
	return by == nil || by == l
}

// enough reports whether a host has the claimed units free, and not reserved for a line other than l.
func (c *claims) enough(of *Claim, l *line, at *host) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Name, at)
		return n == nil || n.taken+u.N > n.all || !c.open(n, l)
	})
}

// addTaken counts the claimed units as taken or, if by is -1, as free. Units of hosts are counted
// on host at.
func (c *claims) addTaken(of *Claim, by int, at *host) {
	for _, u := range of.Units {
		c.counter(u.Name, at).taken += by * u.N
	}
}

// grant lets an item that has passed its gate wait in the line of its claim, which also holds the items
// without one. It returns false if the line is early, so that the item holds up no others of its key.
func (d *Dispatcher) grant(it *Item) bool {
	claim := it.Claim
	if claim == nil {
		claim = &Claim{}
	}
	i := slices.IndexFunc(d.lines, func(l *line) bool { return l.claim.equals(claim) })
	if i < 0 {
		i = len(d.lines)
		d.lines = append(d.lines, &line{claim: claim, early: d.stranded(claim)})
		d.lines[i].queue.line = d.lines[i]
	}
	d.park(&d.lines[i].queue, it)
	return !d.lines[i].early
}

// serveLines returns the first item in the lines that can start, and its slot; 0 for none. Only if strict
// is true, AllowSlot and the places reserved for other lines count.
func (d *Dispatcher) serveLines(strict bool) (first *Item, slot int) {
	for _, l := range d.lines {
		if it, at := d.serve(l, strict); at > 0 && (first == nil || it.compare(first) < 0) {
			first, slot = it, at
		}
	}
	return first, slot
}

// serve returns the first item of a line that can start, and its slot; 0 for none. An item that takes several
// places may start in any slot.
func (d *Dispatcher) serve(l *line, strict bool) (*Item, int) {
	width := d.Width(l.claim)
	may := func(id int) bool { return d.slots.hasRoom(id) && (!strict || d.limits.AllowSlot(id)) }
	able := slices.DeleteFunc(slices.Clone(d.slots.hosts), func(h *host) bool {
		n := d.slots.places(h.ids)
		return n.all-n.taken < width || strict && !d.open(h, l) || !d.enough(l.claim, l, h) || !slices.ContainsFunc(h.ids, may)
	})
	for i := l.queue.head; i < len(l.queue.items) && len(able) > 0; i++ {
		it := l.queue.items[i]
		slot := d.slots.leastLoaded(func(id int) bool {
			return slices.Contains(able, d.slots.byID[id].host) && (width > 1 || d.fits(it, id)) && may(id)
		})
		if slot > 0 {
			return it, slot
		}
	}
	return nil, 0
}

// takeClaim takes what an item claims, except the place in its own slot, on a host. Places are the lowest
// free ones.
func (d *Dispatcher) takeClaim(it *Item, at *host) {
	it.host = at
	d.addTaken(it.Claim, 1, at)
	left := d.Width(it.Claim) - 1
	for _, id := range at.ids {
		for ; left > 0 && d.slots.hasRoom(id); left-- {
			d.Take(id, it)
			it.beside = append(it.beside, id)
		}
	}
}

// returnClaim gives back all that an item has taken, except the place in its own slot.
func (d *Dispatcher) returnClaim(it *Item) {
	if it.host == nil {
		return
	}
	d.addTaken(it.Claim, -1, it.host)
	for _, id := range it.beside {
		d.Policy.Done(id, it, false)
	}
	it.host, it.beside = nil, nil
}

// hostHas reports whether a host has the claimed units, free or taken, and reserved only if that may be.
func (c *claims) hostHas(of *Claim, at *host, reserved bool) bool {
	return !slices.ContainsFunc(of.Units, func(u Units) bool {
		n := c.counter(u.Name, at)
		return n == nil || u.N > n.all || !reserved && !c.open(n, nil)
	})
}

// Width returns how many places an item with claim c takes; 0 if no host has the claimed units.
func (d *Dispatcher) Width(c *Claim) (n int) {
	for _, h := range d.slots.hosts {
		if d.hostHas(c, h, true) {
			n = max(n, min(max(c.Places, 1), d.slots.places(h.ids).all))
		}
	}
	return n
}

// reserve sorts the lines by their first items, and reserves the claims of the overdue ones. Places and
// units of hosts are reserved on the first host that is big enough, and has none of them reserved. Nothing
// is reserved for an item with a label that no slot has.
func (d *Dispatcher) reserve() {
	if len(d.lines)+len(d.reserved) == 0 {
		return
	}
	clear(d.reserved)
	slices.SortFunc(d.lines, func(a, b *line) int { return a.queue.first().compare(b.queue.first()) })
	for _, l := range d.lines {
		if l.early || l.overtaken < d.patience() || d.Choice(l.queue.first()).None {
			continue
		}
		var at *host
		width := d.Width(l.claim)
		for _, h := range d.slots.hosts {
			if d.slots.places(h.ids).all >= width && d.open(h, nil) && d.hostHas(l.claim, h, false) {
				at = h
				break
			}
		}
		for _, u := range l.claim.Units {
			if n := d.counter(u.Name, at); n != nil && d.open(n, nil) {
				d.reserved[n] = l
			}
		}
		if at != nil && l.claim.wide() {
			d.reserved[at] = l
		}
	}
}

// unpark takes a parked item out of its queue.
func (d *Dispatcher) unpark(it *Item) {
	l := it.queue.line
	if l != nil && it == l.queue.first() {
		l.overtaken = 0
	}
	it.leave()
	d.limits.Parked(it, false)
	if l != nil && l.queue.len() == 0 {
		d.lines = slices.DeleteFunc(d.lines, func(o *line) bool { return o == l })
	}
}

// reserveAgainst makes the lines overdue whose first items have a lower rank than it, but would be
// overtaken if it starts. It reports whether there were any that were not overdue yet.
func (d *Dispatcher) reserveAgainst(it *Item) (any bool) {
	for _, l := range d.lines {
		if l.overtaken < d.patience() && l.queue.first().Rank < it.Rank && l.overtakenBy(it.Claim) {
			l.overtaken, any = d.patience(), true
		}
	}
	return any
}

// overtakenBy reports whether an item with claim c, which may be nil, overtakes the first item of l
// if it starts.
func (l *line) overtakenBy(c *Claim) bool {
	return !l.claim.equals(c) && (l.claim.wide() || l.claim.shares(c))
}
