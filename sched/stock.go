package sched

import "slices"

// Stock is what a host has of the limits of hosts. Its slots share it. NewStock makes one. It
// belongs to one Dispatcher.
type Stock struct{ caps []counter }

// NewStock returns a stock with so many units of each limit of hosts, and none of later ones.
func NewStock(all []int) *Stock { return &Stock{counters(all)} }

func (s *Stock) counters() []counter {
	if s == nil {
		return nil
	}
	return s.caps
}

// site is where items find all their places, and units of a host.
type site struct {
	host  uint64
	stock *Stock // nil for none
}

// room is how many places a site has.
type room struct {
	site
	all, free int
}

// spot returns the room with the most free places of those that can take the first item of a
// line now or, if there is none, what that waits for.
func (d *Dispatcher) spot(l *line) (most room, wait Wait) {
	wait = ForPlaces
	if d.local(l.claim) {
		wait = ForStock
	}
	width := d.width(l.claim)
	for _, r := range d.rooms {
		switch {
		case !d.possible(l.claim, r.stock):
		case r.free >= width && d.may(l, r.site) && d.enough(l.claim, l, r.stock):
			if r.free > most.free {
				most, wait = r, ForSlot
			}
		case width > 1 && d.enough(l.claim, l, r.stock):
			wait = min(wait, ForPlaces)
		default:
			wait = min(wait, ForUnits)
		}
	}
	return most, wait
}

// may reports whether the first item of a line may have places of a site if some are kept.
func (d *Dispatcher) may(l *line, at site) bool {
	switch {
	case d.wide == nil:
		return true
	case l.claim.wide():
		return d.wide == l && at == d.site
	}
	return at != d.site
}

// measure counts the places of each host.
func (d *Dispatcher) measure() {
	d.rooms = d.rooms[:0]
	at := -1
	for i := range d.slots {
		s := &d.slots[i]
		if s.cap == 0 {
			continue
		}
		if at < 0 || d.rooms[at].site != s.site { // slots of a host mostly follow each other
			at = slices.IndexFunc(d.rooms, func(r room) bool { return r.site == s.site })
		}
		if at < 0 {
			at = len(d.rooms)
			d.rooms = append(d.rooms, room{site: s.site})
		}
		d.rooms[at].all += s.cap
		d.rooms[at].free += max(0, s.cap-s.held)
	}
}

// home returns where units are kept for the first item of a line: on the first host that has as
// many and keeps none of them for others.
func (d *Dispatcher) home(l *line) (at site) {
	width := d.width(l.claim)
	i := slices.IndexFunc(d.rooms, func(r room) bool {
		return r.all >= width && d.possible(l.claim, r.stock) && !slices.ContainsFunc(l.claim.Units, func(u Units) bool {
			return u.Cap >= len(d.caps) && d.counter(u.Cap, r.stock).keeper != nil
		})
	})
	if i >= 0 {
		at = d.rooms[i].site
	}
	return at
}
