package sched

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

func TestRangesAreASet(t *testing.T) {
	for round := range crewtest.Rounds(100) {
		rnd := crewtest.Rand(t, round)
		most := []int{2, 1000}[round%2]
		r, in := NewRanges(most), map[uint64]bool{}
		for range rnd.IntN(60) {
			from := 1 + rnd.Uint64N(80)
			to := from + max(rnd.Uint64N(8), 5) - 5
			r.Add(from, to)
			for n := from; n <= to; n++ {
				in[n] = true
			}
		}
		require.LessOrEqual(t, len(r.list), most)
		for n := range uint64(90) {
			require.True(t, r.Has(n) == in[n] || in[n] && most == 2, "%d of %v", n, r.list)
		}
		for i := 1; i < len(r.list); i++ {
			require.Greater(t, r.list[i].first, r.list[i-1].last+1, "%v", r.list)
		}
	}
}

func TestRangesForgetTheLowest(t *testing.T) {
	r := NewRanges(2)
	for n := uint64(1); n < 100; n += 2 {
		r.Add(n, n)
	}
	require.Equal(t, []span{{97, 97}, {99, 99}}, r.list)
}

// TestRateIsReached checks that starts that are never late reach the whole rate after a burst. The
// driver checks that no interval has more starts.
func TestRateIsReached(t *testing.T) {
	r, began := NewRate(10, time.Second, 5), time.Unix(1e9, 0)
	now := began
	for range 105 {
		if ok, at := r.allows(now); !ok {
			now = at
		}
		r.pending++
		r.started(now)
	}
	require.Equal(t, 10190*time.Millisecond, now.Sub(began).Round(time.Millisecond))
	r.pending = 5
	ok, at := r.allows(now)
	require.True(t, !ok && at.IsZero(), "%v", at) // a granted start must happen first
	from := r.From(began.Add(time.Hour))
	require.Equal(t, began.Add(time.Hour), from.next)
}

// TestDealIsNearTheBest checks that the largest sum is at most 4/3 of the best, which a search
// finds, and that ties go to the first share.
func TestDealIsNearTheBest(t *testing.T) {
	rnd := crewtest.Rand(t, 0)
	for range 60 {
		costs := costsOf(rnd)
		shares := 1 + rnd.IntN(4)
		sums := make([]int64, shares)
		dealt := Deal(costs, shares)
		for i, s := range dealt {
			sums[s] += costs[i]
		}
		require.Len(t, dealt, len(costs))
		require.LessOrEqual(t, 3*slices.Max(sums), 4*lightest(costs, make([]int64, shares)), "%v to %d", costs, shares)
	}
	require.Equal(t, []int{0, 1, 1, 0}, Deal([]int64{4, 3, 2, 1}, 2))
	require.Equal(t, []int{0, 1, 2}, Deal([]int64{1, 1, 1}, 1<<30))
	require.Empty(t, Deal(nil, 3))
}

func costsOf(rnd *rand.Rand) []int64 {
	costs := make([]int64, 1+rnd.IntN(7))
	for i := range costs {
		costs[i] = rnd.Int64N(20)
	}
	return costs
}

// lightest returns the smallest possible largest sum for shares that start with the given sums.
func lightest(costs, sums []int64) int64 {
	if len(costs) == 0 {
		return slices.Max(sums)
	}
	var best []int64
	for s := range sums {
		with := slices.Clone(sums)
		with[s] += costs[0]
		best = append(best, lightest(costs[1:], with))
	}
	return slices.MinFunc(best, cmp.Compare)
}
