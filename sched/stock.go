package sched

// stock counts the units of limits, by name.
type stock map[string]*counter

func newStock(all []Units) stock {
	s := stock{}
	for _, u := range all {
		s[u.Name] = &counter{all: u.N}
	}
	return s
}

// host is a group of slots with the same host and offers. An item that claims several places, or
// units of hosts, finds them all in one.
type host struct {
	id     uint64 // Slot.Host
	offers *[]Units
	stock  stock // of these
	ids    []int // of the slots, ascending
}
