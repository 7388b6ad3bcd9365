package sched

import (
	"fmt"
	"math/bits"
	"slices"
)

// slot is a Slot as a policy sees it, also after it has left.
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
	changed bool   // slots have joined or left; for the policy to reset

	// the slots with held < room
	idle   bitset   // those that hold nothing
	partly []bitset // the others; those that hold n items are at n
	low    int      // those below are empty
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

// Leave removes a slot; what it holds stays there until Done.
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

// Done makes a slot hold one item less.
func (s *slots) Done(id int, _ Item, _ bool) {
	x := &s.all[id]
	if x.held < x.room {
		s.level(x.held).del(id)
	}
	x.held--
	if x.held < x.room {
		s.level(x.held).add(id)
	}
}

// Balance does nothing.
func (s *slots) Balance(func(uint64) int) {}

// Serial reports false.
func (s *slots) Serial() bool { return false }

// take makes a slot hold one item more and reports true, if the slot is in, has
// free capacity, and there is work for it.
func (s *slots) take(id int) bool {
	if !s.hasRoom(id) {
		return false
	}
	x := &s.all[id]
	s.level(x.held).del(id)
	x.held++
	if x.held < x.room {
		s.level(x.held).add(id)
	}
	return true
}

// offer says whether there is work for a slot.
func (s *slots) offer(id int, work bool) {
	x, room := &s.all[id], 0
	if work {
		room = x.Cap
	}
	if room == x.room {
		return
	}
	if x.held < x.room {
		s.level(x.held).del(id)
	}
	x.room = room
	if x.held < room {
		s.level(x.held).add(id)
	}
}

// level is the set of the slots that have room and hold so many items.
func (s *slots) level(held int) *bitset {
	if held == 0 {
		return &s.idle
	}
	for held >= len(s.partly) {
		s.partly = append(s.partly, nil)
	}
	s.low = min(s.low, held)
	return &s.partly[held]
}

// in reports whether a slot is in that has been in before.
func (s *slots) in(id int) bool { return s.all[id].Cap > 0 }

// hasRoom reports whether a slot is in, has free capacity, and there is work
// for it.
func (s *slots) hasRoom(id int) bool {
	return uint(id) < uint(len(s.all)) && s.all[id].held < s.all[id].room
}

// emptiest is the slot that holds the fewest items among those that have room,
// the lowest ID among equals, or 0.
func (s *slots) emptiest() int {
	id := s.idle.first()
	for id == 0 && s.low < len(s.partly) {
		if id = s.partly[s.low].first(); id == 0 {
			s.low++
		}
	}
	return id
}

// bitset is a set of IDs. The zero bitset is empty.
type bitset []uint64

func (b *bitset) add(id int) {
	for id>>6 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[id>>6] |= 1 << (id & 63)
}

// del removes id, which must be in.
func (b bitset) del(id int) { b[id>>6] &^= 1 << (id & 63) }

// first is the lowest member, or 0.
func (b bitset) first() int {
	for i, x := range b {
		if x != 0 {
			return i<<6 + bits.TrailingZeros64(x)
		}
	}
	return 0
}

// after is the lowest member above id, or 0.
func (b bitset) after(id int) int {
	i := (id + 1) >> 6
	mask := ^uint64(0) << ((id + 1) & 63)
	for ; i < len(b); i++ {
		if x := b[i] & mask; x != 0 {
			return i<<6 + bits.TrailingZeros64(x)
		}
		mask = ^uint64(0)
	}
	return 0
}
