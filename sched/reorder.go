package sched

import (
	"fmt"
	"math/bits"
	"slices"
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

// Ranges is a set of numbers in which most numbers have their neighbours, as those of the
// tasks that have succeeded: it holds ranges. NewRanges makes one.
type Ranges struct {
	list []span // ascending, with gaps between them
	most int
}

type span struct{ from, to uint64 } // both included

// NewRanges returns an empty set of at most so many ranges. When there would be more, it
// forgets the lowest numbers.
func NewRanges(most int) *Ranges { return &Ranges{most: most} }

// Add adds the numbers of a range, both ends included.
func (r *Ranges) Add(from, to uint64) {
	// The ranges from i up to j touch the new one.
	i, _ := slices.BinarySearchFunc(r.list, from, func(s span, from uint64) int {
		if s.to+1 < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(r.list) && r.list[j].from <= to+1; j++ {
		from, to = min(from, r.list[j].from), max(to, r.list[j].to)
	}
	r.list = slices.Replace(r.list, i, j, span{from, to})
	if len(r.list) > r.most {
		r.list = slices.Delete(r.list, 0, 1)
	}
}

// Has reports whether a number is in the set.
func (r *Ranges) Has(n uint64) bool {
	_, found := slices.BinarySearchFunc(r.list, n, func(s span, n uint64) int {
		switch {
		case s.to < n:
			return -1
		case s.from > n:
			return 1
		}
		return 0
	})
	return found
}
