package sched

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLimiterRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 3).Draw(t, "limit")
		l := NewLimiter(limit)
		limit = max(limit, 1)
		through, parked := map[uint64][]uint64{}, map[uint64][]Item{}
		last, waiting := uint64(0), 0
		admit := func(it Item) {
			it.Rank = rapid.SampledFrom([]int64{0, 0, 0, 0, 0, -2, -1, 1, 2}).Draw(t, "rank")
			ok := l.Admit(it)
			require.Equal(t, len(through[it.Key]) < limit, ok)
			if ok {
				through[it.Key] = append(through[it.Key], it.ID)
				return
			}
			parked[it.Key] = append(parked[it.Key], it)
			slices.SortFunc(parked[it.Key], byRankAndID)
			waiting++
		}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			key := rapid.Uint64Range(0, 4).Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				last++
				admit(Item{ID: last, Key: key, Cost: 1})
			case 2, 3:
				if len(through[key]) == 0 {
					continue
				}
				through[key] = through[key][1:]
				it, ok := l.Done(key)
				require.Equal(t, len(parked[key]) > 0, ok, "a parked item is admitted as soon as it may be")
				if ok {
					require.Equal(t, parked[key][0], it, "in the key's order")
					through[key] = append(through[key], it.ID)
					parked[key] = parked[key][1:]
					waiting--
				}
			case 4:
				require.False(t, l.Remove(last+1))
				if n := len(parked[key]); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "parked")
					it := parked[key][i]
					require.True(t, l.Remove(it.ID))
					require.False(t, l.Remove(it.ID))
					parked[key] = slices.Delete(parked[key], i, i+1)
					waiting--
					if rapid.Bool().Draw(t, "again") {
						admit(it)
					}
				}
			}
			require.Equal(t, waiting, l.parked.n)
			var want Block
			for _, p := range parked {
				if n := len(p); n > want.N || n > 0 && n == want.N && p[0].ID < want.ID {
					want = Block{N: n, ID: p[0].ID, OneKey: true}
				}
			}
			require.Equal(t, want, longest(l.Blocks))
		}
	})
}

func TestLimiterForgetsKeys(t *testing.T) {
	l := NewLimiter(2)
	for key := range uint64(10_000) {
		require.True(t, l.Admit(Item{ID: key + 1, Key: key}))
		_, ok := l.Done(key)
		require.False(t, ok)
	}
	require.Empty(t, l.gates)
	require.Len(t, l.spare, 1)
}

func TestLimiterSortsParkedItems(t *testing.T) {
	l := NewLimiter(1)
	require.True(t, l.Admit(Item{ID: 1}))
	for _, id := range []uint64{5, 3, 9, 4, 2} {
		require.False(t, l.Admit(Item{ID: id}))
	}
	for _, id := range []uint64{2, 3, 4, 5, 9} {
		it, ok := l.Done(0)
		require.True(t, ok)
		require.Equal(t, id, it.ID)
	}
}
