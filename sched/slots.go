package sched

import (
	"fmt"
	"slices"
)

// slot is a Slot as a policy sees it, even after it has left.
type slot struct {
	Slot       // Cap is 0 unless the slot is in
	held int   // items it holds, including those from before it left
	cost int64 // of these
	room int   // how many it may hold now: Cap if there is work for it, else 0
}

// slots is the base of the policies: the slots that are in, what they hold, and
// which of them could take an item. newSlots makes one.
type slots struct {
	ids     []int  // of the slots that are in, ascending
	all     []slot // by ID; all[0] is never in
	changed bool   // slots have joined or left; the policy resets it
	byCost  bool   // the load of a slot is not the number of its items, but their cost relative to its capacity
}

func newSlots() slots { return slots{all: make([]slot, 1), changed: true} }

// Join adds a slot. There is work for it until offer says otherwise.
func (s *slots) Join(in Slot) {
	at, found := slices.BinarySearch(s.ids, in.ID)
	if found || in.ID < 1 {
		panic(fmt.Sprintf("internal error: slot %d may not join", in.ID))
	}
	s.ids = slices.Insert(s.ids, at, in.ID)
	for len(s.all) <= in.ID {
		s.all = append(s.all, slot{})
	}
	in.Cap = max(in.Cap, 1)
	s.all[in.ID].Slot = in
	s.changed = true
	s.offer(in.ID, true)
}

// Leave removes a slot. Items it holds stay with it until Done.
func (s *slots) Leave(id int) {
	at, found := slices.BinarySearch(s.ids, id)
	if !found {
		panic(fmt.Sprintf("internal error: slot %d may not leave", id))
	}
	s.ids = slices.Delete(s.ids, at, at+1)
	s.all[id].Cap = 0
	s.changed = true
	s.offer(id, false)
}

// Take has a slot hold one item more.
func (s *slots) Take(id int, it Item) {
	s.all[id].held++
	s.all[id].cost += weight(&it)
}

// Done takes an item away from a slot.
func (s *slots) Done(id int, it Item, _ bool) {
	s.all[id].held--
	s.all[id].cost -= weight(&it)
}

// weight returns an item's cost, bounded so that no sum of costs overflows.
func weight(it *Item) int64 { return min(max(it.Cost, 1), 1<<40) }

func (s *slots) Serial() bool { return false }

// offer sets whether there is work for a slot.
func (s *slots) offer(id int, work bool) {
	x := &s.all[id]
	if x.room = 0; work {
		x.room = x.Cap
	}
}

// hasRoom reports whether a slot is in, has free capacity, and there is work
// for it.
func (s *slots) hasRoom(id int) bool {
	return uint(id) < uint(len(s.all)) && s.all[id].held < s.all[id].room
}

// emptiest returns the slot with the least load of those with room, the lowest ID among equals, or
// 0 if none has room. It looks at each: that costs less than to keep them in order, but for many
// thousands.
func (s *slots) emptiest() (best int) {
	for _, id := range s.ids {
		if s.hasRoom(id) && (best == 0 || s.load(id) < s.load(best)) {
			best = id
		}
	}
	return best
}

func (s *slots) load(id int) float64 {
	x := &s.all[id]
	if s.byCost {
		return float64(x.cost) / float64(x.Cap)
	}
	return float64(x.held)
}

// Choice is the method of policies in which any slot takes any item.
func (s *slots) Choice(Item) Choice { return Choice{Idle: s.all[s.emptiest()].idle()} }

// idle reports whether a slot is in and holds nothing.
func (x *slot) idle() bool { return x.Cap > 0 && x.held == 0 }

// only is the choice of one slot, 0 for none.
func (s *slots) only(id int) Choice { return Choice{Slot: id, Idle: s.all[id].idle()} }
