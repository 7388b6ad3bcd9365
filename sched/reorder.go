package sched

import "slices"

// Reorder takes the numbers of a sequence in any order, and knows up to where the sequence is
// complete. Memory is proportional to the number of gaps. The sequence of the zero Reorder begins
// at 0.
type Reorder struct {
	base  uint64 // the first missing number
	later Ranges // numbers above it that were put
}

// NewReorder returns an empty Reorder whose sequence begins at base.
func NewReorder(base uint64) *Reorder { return &Reorder{base: base} }

// Base returns the first missing number: all numbers below it have been put.
func (r *Reorder) Base() uint64 { return r.base }

// Put adds a number that was not put before.
func (r *Reorder) Put(n uint64) {
	r.later.Add(n, n)
	if first := r.later.list[0]; first.first == r.base {
		r.base = first.last + 1
		r.later.list = slices.Delete(r.later.list, 0, 1)
	}
}

// Ranges is a set of numbers that mostly have neighbours, such as the IDs of the tasks that have
// succeeded. It stores ranges. The zero Ranges is empty and unlimited.
type Ranges struct {
	list  []span // ascending, with gaps between them
	limit int    // number of ranges; 0 for no limit
}

type span struct{ first, last uint64 } // both included

// NewRanges returns an empty set of at most limit ranges. If there would be more, it forgets
// the lowest numbers.
func NewRanges(limit int) *Ranges { return &Ranges{limit: limit} }

// Add adds the numbers of a range, both ends included.
func (r *Ranges) Add(from, to uint64) {
	// The ranges from i up to j touch the new one.
	i, _ := slices.BinarySearchFunc(r.list, from, func(s span, from uint64) int {
		if s.last+1 < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(r.list) && r.list[j].first <= to+1; j++ {
		from, to = min(from, r.list[j].first), max(to, r.list[j].last)
	}
	r.list = slices.Replace(r.list, i, j, span{from, to})
	if r.limit > 0 && len(r.list) > r.limit {
		r.list = slices.Delete(r.list, 0, 1)
	}
}

// Has reports whether a number is in the set.
func (r *Ranges) Has(n uint64) bool {
	_, found := slices.BinarySearchFunc(r.list, n, func(s span, n uint64) int {
		switch {
		case s.last < n:
			return -1
		case s.first > n:
			return 1
		}
		return 0
	})
	return found
}
