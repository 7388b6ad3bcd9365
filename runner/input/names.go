package input

import (
	"hash/maphash"
	"math/bits"
)

// Names finds tasks by the names that their users give them. The zero Names is empty and
// takes no memory. It must not be copied once it has a name.
//
// It does not keep the names, but a 64-bit hash of each. Two of a million names have the same
// one with a probability of 3e-8; the later of the two would be taken for the earlier one.
//
// It is an open-addressing hash table with linear probing (Knuth, The Art of Computer
// Programming, volume 3, section 6.4, algorithm L) that grows by a quarter once it is seven
// eighths full. So a name takes 18.3 to 22.9 bytes, 20.5 on average, when there are a thousand
// or more; in a Go map it would take up to 38. The place of a name is proportional to its
// hash (Lemire, Fast Random Integer Generation in an Interval, 2019), so that growing walks
// through the old and the new table in the same order. It uses each page of the old one again
// as soon as that has been read, and never holds both.
type Names struct {
	seed  maphash.Seed
	pages []*page // the table; a nil page is empty
	spare []*page // while it grows: pages of the old table that have been read
	count int     // of names

	begun  bool
	recent []uint64 // once begun: the hashes of the names defined since, in order
}

// page is 4 KiB of the table.
type page [256]named

// named is a slot of the table: a name's hash and the number of its task, which is 0 in an
// empty slot.
type named struct{ hash, number uint64 }

// Len returns the number of names.
func (n *Names) Len() int { return n.count }

// Define gives a name to a task unless another one has it, and returns the number of the task
// that has it now. The number must not be 0.
func (n *Names) Define(name string, number uint64) uint64 {
	if n.pages == nil {
		n.seed = maphash.MakeSeed()
	}
	return n.define(maphash.String(n.seed, name), number)
}

// Lookup returns the number of the task that has a name, or 0 if none has.
func (n *Names) Lookup(name string) uint64 {
	if n.count == 0 {
		return 0
	}
	h := maphash.String(n.seed, name)
	return n.at(n.find(h)).number
}

// Begin makes the names final that have been defined so far. Undo can undo the later ones,
// which it takes 8 more bytes each to remember, until Begin is called again.
func (n *Names) Begin() {
	n.begun, n.recent = true, nil
}

// Undo forgets the names that tasks with numbers above last have been given since Begin.
// These must have been defined in the order of their numbers.
func (n *Names) Undo(last uint64) {
	for i := len(n.recent) - 1; i >= 0; i-- {
		at := n.find(n.recent[i])
		if n.at(at).number <= last {
			break
		}
		n.remove(at)
		n.recent = n.recent[:i]
	}
}

func (n *Names) define(hash, number uint64) uint64 {
	if 8*n.count >= 7*n.slots() {
		n.grow()
	}
	s := n.at(n.find(hash))
	if s.number == 0 {
		*s = named{hash, number}
		n.count++
		if n.begun {
			n.recent = append(n.recent, hash)
		}
	}
	return s.number
}

func (n *Names) slots() int { return len(n.pages) * len(page{}) }

// at returns slot i.
func (n *Names) at(i int) *named {
	p := &n.pages[i/len(page{})]
	if *p == nil {
		*p = n.newPage()
	}
	return &(*p)[i%len(page{})]
}

func (n *Names) newPage() *page {
	last := len(n.spare) - 1
	if last < 0 {
		return new(page)
	}
	p := n.spare[last]
	n.spare = n.spare[:last]
	return p
}

// home returns the slot where the search for a hash begins.
func (n *Names) home(hash uint64) int {
	i, _ := bits.Mul64(hash, uint64(n.slots()))
	return int(i)
}

// next returns the slot after i.
func (n *Names) next(i int) int {
	if i++; i == n.slots() {
		return 0
	}
	return i
}

// find returns the slot that has a hash, or the empty one where it belongs.
func (n *Names) find(hash uint64) int {
	i := n.home(hash)
	for {
		if s := n.at(i); s.number == 0 || s.hash == hash {
			return i
		}
		i = n.next(i)
	}
}

// grow makes the table larger by a quarter.
func (n *Names) grow() {
	old := n.pages
	n.pages = make([]*page, len(old)+max(1, len(old)/4))
	for _, p := range old {
		if p == nil {
			continue
		}
		for _, s := range p {
			if s.number != 0 {
				*n.at(n.find(s.hash)) = s
			}
		}
		clear(p[:])
		n.spare = append(n.spare, p)
	}
	n.spare = nil
}

// remove empties slot i, and moves those behind it that could not be found then (algorithm
// R of the same section).
func (n *Names) remove(i int) {
	for j := n.next(i); n.at(j).number != 0; j = n.next(j) {
		if s := n.at(j); n.distance(n.home(s.hash), j) >= n.distance(i, j) {
			*n.at(i) = *s
			i = j
		}
	}
	*n.at(i) = named{}
	n.count--
}

// distance returns how many slots j is behind i.
func (n *Names) distance(i, j int) int {
	if j < i {
		j += n.slots()
	}
	return j - i
}
