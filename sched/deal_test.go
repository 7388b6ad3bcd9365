package sched

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// heaviest returns the largest sum of the shares.
func heaviest(costs []int64, dealt []int, shares int) int64 {
	sums := make([]int64, shares)
	for i, s := range dealt {
		sums[s] += costs[i]
	}
	return slices.Max(sums)
}

// lightest returns the smallest possible largest sum.
func lightest(costs []int64, shares int) int64 {
	dealt := make([]int, len(costs))
	best := heaviest(costs, dealt, shares)
	for {
		i := 0
		for ; i < len(dealt) && dealt[i] == shares-1; i++ {
			dealt[i] = 0
		}
		if i == len(dealt) {
			return best
		}
		dealt[i]++
		best = min(best, heaviest(costs, dealt, shares))
	}
}

func TestDealIsNearTheBest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		costs := make([]int64, 1+rnd.IntN(7))
		for i := range costs {
			costs[i] = rnd.Int64N(20)
		}
		shares := 1 + rnd.IntN(4)
		dealt := Deal(costs, shares)
		require.Len(t, dealt, len(costs))
		require.LessOrEqual(t, 3*heaviest(costs, dealt, shares), 4*lightest(costs, shares), "%v to %d", costs, shares)
	}
	require.Equal(t, []int{0, 1, 1, 0}, Deal([]int64{4, 3, 2, 1}, 2))
	require.Equal(t, []int{0, 1, 2}, Deal([]int64{1, 1, 1}, 1<<30))
	require.Empty(t, Deal(nil, 3))
}
