package sched

// Stock is what a host has of the limits of hosts. Its slots share it. NewStock makes one. It
// belongs to one Dispatcher.
type Stock []counter

// NewStock returns a stock with so many units of each limit of hosts, and none of later ones.
func NewStock(all []int) *Stock {
	s := make(Stock, len(all))
	for i, n := range all {
		s[i].all = n
	}
	return &s
}

// room is where items find all their places, and units of a host: the slots of a host that are in.
type room struct {
	host      uint64
	stock     *Stock // nil for none
	ids       []int  // of the slots, ascending
	all, free int    // places
}

// spot returns the room with the most free places of those that can take the first item of a
// line now or, if there is none, what that waits for. Any will do for an item that need not be
// placed.
func (d *Dispatcher) spot(l *line) (most *room, wait Wait) {
	if !d.placed(l.claim) {
		if d.enough(l.claim, l, nil) {
			return nil, ForSlot
		}
		return nil, ForUnits
	}
	if wait = ForPlaces; d.local(l.claim) {
		wait = ForStock
	}
	width := d.Width(l.claim)
	for _, r := range d.slots.rooms {
		enough := d.enough(l.claim, l, r)
		switch {
		case !d.possible(l.claim, r):
		case enough && r.free >= width && !d.kept(places, r, l):
			if most == nil || r.free > most.free {
				most, wait = r, ForSlot
			}
		case enough && width > 1:
			wait = min(wait, ForPlaces)
		default:
			wait = min(wait, ForUnits)
		}
	}
	return most, wait
}
