package sched

import (
	"fmt"
	"math"
	"slices"
)

// slot is a Slot as a policy sees it, even after it has left.
type slot struct {
	Slot       // Cap is 0 unless the slot is in
	held int   // items it holds, including those from before it left
	cost int64 // of these
	room int   // how many it may hold now: Cap if there is work for it, else 0
	pos  int   // among those with room
}

// slots is the base of the policies: the slots that are in, what they hold, and
// which of them could take an item. newSlots makes one.
type slots struct {
	ids     []int       // of the slots that are in, ascending
	all     []*slot     // by ID; all[0] is never in
	changed bool        // slots have joined or left; the policy resets it
	free    heap[*slot] // those with room, the one that holds the fewest items first
	byCost  bool        // or the one that holds the least cost relative to its capacity
}

func newSlots() slots { return slots{all: []*slot{{}}, changed: true} }

// Join adds a slot. There is work for it until offer says otherwise.
func (s *slots) Join(in Slot) {
	at, found := slices.BinarySearch(s.ids, in.ID)
	if found || in.ID < 1 {
		panic(fmt.Sprintf("internal error: slot %d may not join", in.ID))
	}
	s.ids = slices.Insert(s.ids, at, in.ID)
	for len(s.all) <= in.ID {
		s.all = append(s.all, &slot{})
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
func (s *slots) Take(id int, it Item) { s.hold(s.all[id], 1, weight(&it)) }

// Done takes an item away from a slot.
func (s *slots) Done(id int, it Item, _ bool) { s.hold(s.all[id], -1, -weight(&it)) }

func (s *slots) hold(x *slot, n int, cost int64) {
	x.held += n
	x.cost += cost
	s.list(x)
}

// weight returns an item's cost, bounded so that no sum of costs overflows.
func weight(it *Item) int64 { return min(max(it.Cost, 1), 1<<40) }

func (s *slots) Serial() bool { return false }

// offer sets whether there is work for a slot.
func (s *slots) offer(id int, work bool) {
	x := s.all[id]
	if x.room = 0; work {
		x.room = x.Cap
	}
	s.list(x)
}

// list notes whether a slot has room, after anything about it has changed.
func (s *slots) list(x *slot) {
	load := int64(x.held)
	if s.byCost {
		load = int64(math.Float64bits(float64(x.cost) / float64(x.room))) // in the order of the quotient
	}
	if x.held < x.room {
		s.free.update(x, &x.pos, order{load, int64(x.ID)})
	} else {
		s.free.remove(&x.pos)
	}
}

// hasRoom reports whether a slot is in, has free capacity, and there is work
// for it.
func (s *slots) hasRoom(id int) bool { return uint(id) < uint(len(s.all)) && s.all[id].pos > 0 }

// emptiest returns the first of the slots with room, or 0 if there is none.
func (s *slots) emptiest() int {
	if s.free.len() == 0 {
		return 0
	}
	return s.free.min().ID
}

// Choice is the method of policies in which any slot takes any item.
func (s *slots) Choice(Item) Choice { return Choice{Idle: s.all[s.emptiest()].idle()} }

// idle reports whether a slot is in and holds nothing.
func (x *slot) idle() bool { return x.Cap > 0 && x.held == 0 }

// only is the choice of one slot, 0 for none.
func (s *slots) only(id int) Choice { return Choice{Slot: id, Idle: s.all[id].idle()} }
