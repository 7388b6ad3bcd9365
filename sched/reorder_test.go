package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReorderRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Uint64Range(0, 1<<40).Draw(t, "base")
		r := NewReorder(next)
		put := map[uint64]bool{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			n := next
			if rapid.Bool().Draw(t, "ahead") {
				n += rapid.Uint64Range(0, 300).Draw(t, "by")
			}
			if put[n] {
				require.Panics(t, func() { r.Put(n) })
				continue
			}
			r.Put(n)
			put[n] = true
			for put[next] {
				next++
			}
			require.Equal(t, next, r.Base())
		}
		if put[next-1] {
			require.Panics(t, func() { r.Put(next - 1) })
		}
	})
}

func TestReorderLong(t *testing.T) {
	r := NewReorder(1)
	rnd := rand.New(rand.NewPCG(5, 6))
	var pending []uint64
	last := uint64(0)
	for last < uint64(steps()) {
		for len(pending) < 1+rnd.IntN(500) {
			last++
			pending = append(pending, last)
		}
		r.Put(cut(&pending, rnd.IntN(len(pending))))
		holds(t, r.Base() <= last+1, "%d is complete, and %d is the last", r.Base(), last)
	}
	for _, n := range pending {
		require.LessOrEqual(t, r.Base(), n)
		r.Put(n)
	}
	require.Equal(t, last+1, r.Base())
}

func TestReorderGivesMemoryBack(t *testing.T) {
	r := NewReorder(1)
	const n = 200_000
	for i := uint64(2); i <= n; i++ {
		r.Put(i)
	}
	require.EqualValues(t, 1, r.Base(), "the first is missing")
	r.Put(1)
	require.EqualValues(t, n+1, r.Base())
	require.Len(t, r.cells, minReorder)
	require.Panics(t, func() { r.Put(5) }, "it was put before")
}

func TestReorderZeroValue(t *testing.T) {
	var r Reorder
	require.Zero(t, r.Base())
	r.Put(0)
	require.EqualValues(t, 1, r.Base())
}
