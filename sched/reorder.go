package sched

import (
	"fmt"
	"math/bits"
)

// minReorder is the capacity below which a Reorder does not shrink.
const minReorder = 64

// Reorder takes the numbers of a sequence in any order and tells how far the
// sequence is complete. Put is O(1) amortised; memory follows the distance from
// the first number missing to the highest one put. The sequence of the zero
// Reorder begins at 0.
type Reorder struct {
	cells []bool // whether number n was put, for base <= n < end, at n modulo the length, a power of two
	base  uint64 // the first number missing
	end   uint64 // above every number put; at least base
}

// NewReorder returns an empty Reorder whose sequence begins at base.
func NewReorder(base uint64) *Reorder { return &Reorder{base: base, end: base} }

// Base returns the first number that is missing: those below have been put.
func (r *Reorder) Base() uint64 { return r.base }

// Put adds a number. It panics if the number was put before.
func (r *Reorder) Put(n uint64) {
	if n < r.base || n < r.end && *r.cell(n) {
		panic(fmt.Sprintf("internal error: %d put twice", n))
	}
	if span := n - r.base + 1; span > uint64(len(r.cells)) {
		r.resize(max(minReorder, 1<<bits.Len64(span-1)))
	}
	*r.cell(n) = true
	r.end = max(r.end, n+1)
	for r.base < r.end && *r.cell(r.base) {
		*r.cell(r.base) = false
		r.base++
	}
	size := len(r.cells)
	for size > minReorder && r.end-r.base <= uint64(size/4) {
		size /= 2
	}
	if size < len(r.cells) {
		r.resize(size)
	}
}

func (r *Reorder) cell(n uint64) *bool { return &r.cells[n&uint64(len(r.cells)-1)] }

func (r *Reorder) resize(size int) {
	old := *r
	r.cells = make([]bool, size)
	for n := r.base; n < r.end; n++ {
		*r.cell(n) = *old.cell(n)
	}
}
