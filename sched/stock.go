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

// host is where items find all their places, and units of a host: the slots of a host that are in.
type host struct {
	id        uint64
	stock     *Stock // nil for none
	ids       []int  // of the slots, ascending
	all, free int    // places
}

// findHost reports whether the first item of a line can start, and returns the room with the most free
// places of those where it can. Any will do for an item that need not be placed.
func (d *Dispatcher) findHost(l *line) (most *host, ok bool) {
	if !d.needsHost(l.claim) {
		return nil, d.enough(l.claim, l, nil)
	}
	for _, r := range d.slots.hosts {
		if d.enough(l.claim, l, r) && r.free >= d.Width(l.claim) && !d.reserved(places, r, l) && (most == nil || r.free > most.free) {
			most = r
		}
	}
	return most, most != nil
}
