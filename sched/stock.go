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
	id    uint64 // Slot.Host
	stock *Stock // nil for none
	ids   []int  // of the slots, ascending
}
