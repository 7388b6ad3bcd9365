package sched

import "fmt"

// minReorder is the capacity below which a Reorder does not shrink.
const minReorder = 64

// Reorder takes values in any order and gives them back in sequence. Each
// operation is O(1) amortised; the memory follows the distance between the
// next number in sequence and the highest one held. The zero Reorder begins
// at 0; NewReorder makes one that begins elsewhere.
type Reorder[T any] struct {
	slots []slot[T] // number s is at s modulo its length, a power of two
	base  uint64    // the next number in sequence
	end   uint64    // above every number held; at least base
	held  int
}

type slot[T any] struct {
	value T
	full  bool
}

// NewReorder returns an empty Reorder whose sequence begins at base.
func NewReorder[T any](base uint64) *Reorder[T] {
	return &Reorder[T]{base: base, end: base}
}

// Put takes the value of number seq. It panics where there has been one before.
func (r *Reorder[T]) Put(seq uint64, v T) {
	if seq < r.base {
		panic(fmt.Sprintf("internal error: %d put after its turn", seq))
	}
	if span := seq - r.base + 1; span > uint64(len(r.slots)) {
		n := max(minReorder, len(r.slots))
		for uint64(n) < span {
			n *= 2
		}
		r.resize(n)
	}
	s := r.slot(seq)
	if s.full {
		panic(fmt.Sprintf("internal error: %d put twice", seq))
	}
	*s = slot[T]{value: v, full: true}
	r.end = max(r.end, seq+1)
	r.held++
}

// Next takes out the next value in sequence, if it is there.
func (r *Reorder[T]) Next() (T, bool) {
	if r.held == 0 || !r.slot(r.base).full {
		var zero T
		return zero, false
	}
	s := r.slot(r.base)
	v := s.value
	*s = slot[T]{}
	r.base++
	r.held--
	if n := len(r.slots); n > minReorder && r.end-r.base <= uint64(n/4) {
		r.resize(n / 2)
	}
	return v, true
}

// Base is the number that Next waits for or gives next.
func (r *Reorder[T]) Base() uint64 { return r.base }

func (r *Reorder[T]) slot(seq uint64) *slot[T] {
	return &r.slots[seq&uint64(len(r.slots)-1)]
}

func (r *Reorder[T]) resize(n int) {
	old := *r
	r.slots = make([]slot[T], n)
	if old.held == 0 {
		return
	}
	for s := r.base; s < r.end; s++ {
		*r.slot(s) = *old.slot(s)
	}
}
