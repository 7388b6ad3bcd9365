package sched

import (
	"cmp"
	"slices"
)

// Deal deals costs out to shares so that their sums are close together, and returns the
// share of each, from 0 to shares-1. The largest goes first, and each to the share with
// the lowest sum so far, the first of several. With non-negative costs, the largest sum is
// at most 4/3 of the smallest possible (Graham, "Bounds on Multiprocessing Timing
// Anomalies", 1969).
func Deal(costs []int64, shares int) []int {
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[b], costs[a]) })
	n := min(shares, len(costs))
	sums, at := make([]int64, n), make([]int, n)
	var least heap[int]
	for s := range n {
		least.update(s, &at[s], 0, int64(s))
	}
	dealt := make([]int, len(costs))
	for _, i := range order {
		s := least.min()
		dealt[i] = s
		sums[s] += costs[i]
		least.update(s, &at[s], sums[s], int64(s))
	}
	return dealt
}
