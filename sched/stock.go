package sched

// Stock counts the units that a host offers, for all its slots. It belongs to one Dispatcher.
// NewStock makes one. A name in Limits.Caps has no effect.
type Stock map[string]*counter

// NewStock returns a Stock with the given units.
func NewStock(all []Units) *Stock {
	s := Stock{}
	for _, u := range all {
		s[u.Name] = &counter{all: u.N}
	}
	return &s
}

// host is a group of slots with the same host and stock. An item that claims several places, or
// units of hosts, finds them all in one.
type host struct {
	id     uint64 // Slot.Host
	stock  *Stock // nil for none
	ids    []int  // of the slots, ascending
	places counter
}

// findHost reports whether the first item of a line can start, and returns the host for it, the one
// with the most free places. The host is nil if the item needs none.
func (d *Dispatcher) findHost(l *line) (most *host, ok bool) {
	if !d.needsHost(l.claim) {
		return nil, d.enough(l.claim, l, nil) && d.Free(l.queue.first()) > 0
	}
	for _, h := range d.slots.hosts {
		if d.enough(l.claim, l, h) && h.places.free() >= d.Width(l.claim) && d.open(&h.places, l) && (most == nil || h.places.free() > most.places.free()) {
			most = h
		}
	}
	return most, most != nil
}
