package sched

import (
	"math"
	"slices"
)

// slot is a Slot as a policy sees it, even after it has left.
type slot struct {
	Slot       // Places is 0 unless the slot is in
	host       *host
	held       int   // items it holds, with those from before it left
	cost       int64 // of these items
	servedLast bool  // other slots are served first
}

// slots is the base of the policies: the present slots, and the items that they hold.
type slots struct {
	ids     []int   // of the slots that are in, ascending
	byID    []slot  // element 0 is never in
	changed bool    // slots have joined or left since settle
	hosts   []*host // of the slots that are in
	byCost  bool    // the load of a slot is the cost of its items relative to its capacity, not their number
}

func newSlots() slots { return slots{byID: make([]slot, 1), changed: true} }

// Join adds a slot.
func (s *slots) Join(in Slot) {
	for len(s.byID) <= in.ID {
		s.byID = append(s.byID, slot{})
	}
	h, x := &host{id: in.Host, offers: in.Offers}, &s.byID[in.ID]
	if i := slices.IndexFunc(s.byID, func(x slot) bool { return x.host != nil && x.host.id == in.Host && x.host.offers == in.Offers }); i >= 0 {
		h = s.byID[i].host // perhaps of slots that have left, whose items still hold its units
	} else if in.Offers != nil {
		h.stock = newStock(*in.Offers)
	}
	if len(h.ids) == 0 {
		s.hosts = append(s.hosts, h)
	}
	in.Places = max(in.Places, 1)
	x.Slot, x.host, x.servedLast = in, h, false
	for _, ids := range [...]*[]int{&s.ids, &h.ids} {
		i, _ := slices.BinarySearch(*ids, in.ID)
		*ids = slices.Insert(*ids, i, in.ID)
	}
	s.changed = true
}

// Leave removes a slot. Items it holds stay with it until Done.
func (s *slots) Leave(id int) {
	for _, ids := range [...]*[]int{&s.ids, &s.byID[id].host.ids} {
		i, _ := slices.BinarySearch(*ids, id)
		*ids = slices.Delete(*ids, i, i+1)
	}
	s.byID[id].Places = 0
	s.hosts = slices.DeleteFunc(s.hosts, func(h *host) bool { return len(h.ids) == 0 })
	s.changed = true
}

// places counts the places in some slots that are in.
func (s *slots) places(ids []int) (n counter) {
	for _, id := range ids {
		x := &s.byID[id]
		n.all += x.Places
		n.taken += min(x.held, x.Places)
	}
	return n
}

// addHeld adds n to the number of times that a slot holds an item.
func (s *slots) addHeld(id int, it *Item, n int) {
	s.byID[id].held += n
	s.byID[id].cost += int64(n) * weight(it)
}

func (s *slots) Take(id int, it *Item)         { s.addHeld(id, it, 1) }
func (s *slots) Done(id int, it *Item, _ bool) { s.addHeld(id, it, -1) }
func (s *slots) base() *slots                  { return s }

// weight returns an item's cost, bounded so that no sum of costs overflows.
func weight(it *Item) int64 { return min(max(it.Cost, 1), 1<<40) }

func (s *slots) Serial() bool { return false }

// hasRoom reports whether a slot is in and has free capacity.
func (s *slots) hasRoom(id int) bool {
	return s.byID[id].held < s.byID[id].Places
}

// leastLoaded returns the slot with the least load, of the slots with free capacity that may
// accepts; the lowest ID among equals, 0 for none. It looks at every slot, which costs less than
// keeping them in order, except with many thousands of slots.
func (s *slots) leastLoaded(may func(id int) bool) (best int) {
	least := math.Inf(1)
	for _, id := range s.ids {
		if s.hasRoom(id) && s.load(id) < least && may(id) {
			best, least = id, s.load(id)
		}
	}
	return best
}

func (s *slots) load(id int) float64 {
	x := &s.byID[id]
	switch {
	case s.byCost:
		return float64(x.cost) / float64(x.Places)
	case x.servedLast:
		return 1<<50 + float64(x.held)
	}
	return float64(x.held)
}

// The methods of policies in which any slot takes any item.

func (s *slots) Choice(*Item) Choice  { return Choice{} }
func (s *slots) fits(*Item, int) bool { return true }
func (s *slots) pop(it *Item, _ bool) { it.leave() }
func (s *slots) release(*Item)        {}
func (s *slots) settle()              {}
