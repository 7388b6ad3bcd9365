package sched

// Stock counts the units that a host offers, for all its slots. It belongs to one Dispatcher.
// NewStock makes one.
type Stock []counter

// NewStock returns a Stock with all[i] units of limit i of hosts, and none of later limits.
func NewStock(all []int) *Stock {
	s := make(Stock, len(all))
	for i, n := range all {
		s[i].all = n
	}
	return &s
}

// host is a group of slots with the same host and stock. An item that claims several places, or
// units of hosts, finds them all in one.
type host struct {
	id        uint64 // Slot.Host
	stock     *Stock // nil for none
	ids       []int  // of the slots, ascending
	all, free int    // places of these slots
}

// findHost reports whether the first item of a line can start, and returns the host for it, the one
// with the most free places. The host is nil if the item needs none.
func (d *Dispatcher) findHost(l *line) (most *host, ok bool) {
	if !d.needsHost(l.claim) {
		return nil, d.enough(l.claim, l, nil)
	}
	for _, h := range d.slots.hosts {
		if d.enough(l.claim, l, h) && h.free >= d.Width(l.claim) && !d.reserved(places, h, l) && (most == nil || h.free > most.free) {
			most = h
		}
	}
	return most, most != nil
}
