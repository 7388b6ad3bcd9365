package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReorderRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint64Range(0, 1<<40).Draw(t, "base")
		r := NewReorder[uint64](base)
		held := map[uint64]bool{}
		next := base
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				seq := next + rapid.Uint64Range(0, 300).Draw(t, "ahead")
				if held[seq] {
					require.Panics(t, func() { r.Put(seq, 0) })
					continue
				}
				r.Put(seq, seq*7)
				held[seq] = true
			} else {
				v, ok := r.Next()
				require.Equal(t, held[next], ok)
				if ok {
					require.Equal(t, next*7, v)
					delete(held, next)
					next++
				}
			}
			require.Equal(t, len(held), r.held)
			require.Equal(t, next, r.Base())
		}
	})
}

func TestReorderLong(t *testing.T) {
	r := NewReorder[int](1)
	rnd := rand.New(rand.NewPCG(5, 6))
	pending := []int{}
	put, got := 0, 0
	for put < steps() {
		for len(pending) < 1+rnd.IntN(500) {
			put++
			pending = append(pending, put)
		}
		i := rnd.IntN(len(pending))
		r.Put(uint64(pending[i]), pending[i])
		pending[i] = pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for v, ok := r.Next(); ok; v, ok = r.Next() {
			got++
			require.Equal(t, got, v)
		}
	}
	for _, v := range pending {
		r.Put(uint64(v), v)
	}
	for _, ok := r.Next(); ok; _, ok = r.Next() {
		got++
	}
	require.Equal(t, put, got)
	require.Zero(t, r.held)
}

func TestReorderGivesMemoryBack(t *testing.T) {
	r := NewReorder[int](1)
	const n = 200_000
	for i := uint64(2); i <= n; i++ {
		r.Put(i, int(i))
	}
	_, ok := r.Next()
	require.False(t, ok, "the first is missing")
	r.Put(1, 1)
	for i := 1; i <= n; i++ {
		v, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, i, v)
	}
	require.Len(t, r.cells, minReorder)
	require.Panics(t, func() { r.Put(5, 5) }, "its turn is over")
}

func TestReorderZeroValue(t *testing.T) {
	var r Reorder[string]
	_, ok := r.Next()
	require.False(t, ok)
	r.Put(0, "a")
	v, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, "a", v)
}
