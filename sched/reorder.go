package sched

import "fmt"

// minReorder is the capacity below which a Reorder does not shrink.
const minReorder = 64

// Reorder is a reorder buffer: it takes numbered values in any order and
// returns them in sequence. Each operation is O(1) amortised; memory follows
// the distance from the next number in sequence to the highest one held. The
// sequence of the zero Reorder begins at 0; NewReorder makes one that begins
// elsewhere.
type Reorder[T any] struct {
	cells []cell[T] // number n is at n modulo the length, a power of two
	base  uint64    // the next number in sequence
	end   uint64    // above every number held; at least base
	held  int
}

type cell[T any] struct {
	value T
	full  bool
}

// NewReorder returns an empty Reorder whose sequence begins at base.
func NewReorder[T any](base uint64) *Reorder[T] {
	return &Reorder[T]{base: base, end: base}
}

// Put stores the value of number seq. It panics if that number has been put
// before.
func (r *Reorder[T]) Put(seq uint64, v T) {
	if seq < r.base {
		panic(fmt.Sprintf("internal error: %d put after its turn", seq))
	}
	if span := seq - r.base + 1; span > uint64(len(r.cells)) {
		n := max(minReorder, len(r.cells))
		for uint64(n) < span {
			n *= 2
		}
		r.resize(n)
	}
	c := r.cell(seq)
	if c.full {
		panic(fmt.Sprintf("internal error: %d put twice", seq))
	}
	*c = cell[T]{value: v, full: true}
	r.end = max(r.end, seq+1)
	r.held++
}

// Next removes and returns the next value in sequence, if it is there.
func (r *Reorder[T]) Next() (T, bool) {
	if r.held == 0 || !r.cell(r.base).full {
		var zero T
		return zero, false
	}
	c := r.cell(r.base)
	v := c.value
	*c = cell[T]{}
	r.base++
	r.held--
	if n := len(r.cells); n > minReorder && r.end-r.base <= uint64(n/4) {
		r.resize(n / 2)
	}
	return v, true
}

// Base is the number whose value Next returns next.
func (r *Reorder[T]) Base() uint64 { return r.base }

func (r *Reorder[T]) cell(seq uint64) *cell[T] {
	return &r.cells[seq&uint64(len(r.cells)-1)]
}

func (r *Reorder[T]) resize(n int) {
	old := *r
	r.cells = make([]cell[T], n)
	if old.held == 0 {
		return
	}
	for seq := r.base; seq < r.end; seq++ {
		*r.cell(seq) = *old.cell(seq)
	}
}
