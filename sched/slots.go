package sched

import (
	"fmt"
	"math/bits"
	"slices"
)

// slot is a Slot as a policy sees it, even after it has left.
type slot struct {
	Slot     // Cap is 0 unless the slot is in
	held int // items it holds, including those from before it left
	room int // how many it may hold now: Cap if there is work for it, else 0
}

// slots is the base of the policies: the slots that are in, what they hold, and
// which of them could take an item. newSlots makes one.
type slots struct {
	ids     []int  // of the slots that are in, ascending
	all     []slot // by ID; all[0] is never in
	changed bool   // slots have joined or left; the policy resets it

	levels []bitset // levels[n] are the slots with n == held < room; there is one for each held
	low    int      // the levels below are empty
}

func newSlots() slots { return slots{all: make([]slot, 1), changed: true, levels: make([]bitset, 1)} }

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

// Done takes an item away from a slot.
func (s *slots) Done(id int, _ Item, _ bool) {
	s.unlist(id)
	s.all[id].held--
	s.list(id)
}

func (s *slots) Serial() bool { return false }

// take gives a slot one more item, and reports false if it has no room.
func (s *slots) take(id int) bool {
	if !s.hasRoom(id) {
		return false
	}
	s.Take(id, Item{})
	return true
}

// Take has a slot hold one item more.
func (s *slots) Take(id int, _ Item) {
	s.unlist(id)
	s.all[id].held++
	if s.all[id].held == len(s.levels) {
		s.levels = append(s.levels, nil)
	}
	s.list(id)
}

// offer sets whether there is work for a slot.
func (s *slots) offer(id int, work bool) {
	x, room := &s.all[id], 0
	if work {
		room = x.Cap
	}
	if room != x.room {
		s.unlist(id)
		x.room = room
		s.list(id)
	}
}

// list adds a slot to its level, if it has room. unlist, which has to come
// before any change of held or room, removes it again.
func (s *slots) list(id int) {
	if x := &s.all[id]; x.held < x.room {
		s.levels[x.held].add(id)
		s.low = min(s.low, x.held)
	}
}

func (s *slots) unlist(id int) {
	if x := &s.all[id]; x.held < x.room {
		s.levels[x.held].del(id)
	}
}

// hasRoom reports whether a slot is in, has free capacity, and there is work
// for it.
func (s *slots) hasRoom(id int) bool {
	return uint(id) < uint(len(s.all)) && s.all[id].held < s.all[id].room
}

// emptiest returns the slot that holds the fewest items among those with room,
// the lowest ID among equals, or 0 if none has room.
func (s *slots) emptiest() int {
	for ; s.low < len(s.levels); s.low++ {
		if id := s.levels[s.low].from(1); id != 0 {
			return id
		}
	}
	return 0
}

// Choice is the method of policies in which any slot takes any item.
func (s *slots) Choice(Item) Choice { return Choice{Idle: s.levels[0].from(1) != 0} }

// only is the choice of one slot, 0 for none.
func (s *slots) only(id int) Choice {
	return Choice{Slot: id, Idle: id > 0 && s.all[id].Cap > 0 && s.all[id].held == 0}
}

// bitset is a set of IDs from 1. The zero bitset is empty.
type bitset []uint64

func (b *bitset) add(id int) {
	for id>>6 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[id>>6] |= 1 << (id & 63)
}

// del removes id, which must be in.
func (b bitset) del(id int) { b[id>>6] &^= 1 << (id & 63) }

// from returns the lowest member that is not below id, or 0.
func (b bitset) from(id int) int {
	mask := ^uint64(0) << (id & 63)
	for i := id >> 6; i < len(b); i++ {
		if x := b[i] & mask; x != 0 {
			return i<<6 + bits.TrailingZeros64(x)
		}
		mask = ^uint64(0)
	}
	return 0
}
