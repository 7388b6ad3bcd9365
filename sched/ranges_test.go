package sched

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRangesAgainstAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, in := NewRanges(1000), map[uint64]bool{}
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			from := rapid.Uint64Range(1, 80).Draw(rt, "from")
			to := from + rapid.SampledFrom([]uint64{0, 0, 0, 1, 5}).Draw(rt, "more")
			r.Add(from, to)
			for n := from; n <= to; n++ {
				in[n] = true
			}
		}
		for n := range uint64(90) {
			require.Equal(rt, in[n], r.Has(n), "%d of %v", n, r.list)
		}
		for i := 1; i < len(r.list); i++ {
			require.Greater(rt, r.list[i].from, r.list[i-1].to+1, "%v", r.list)
		}
	})
}

func TestRangesForgetTheLowest(t *testing.T) {
	r := NewRanges(2)
	for n := uint64(1); n < 100; n += 2 {
		r.Add(n, n)
	}
	require.False(t, r.Has(95))
	require.True(t, r.Has(97))
	require.True(t, r.Has(99))
	r.Add(98, 98)
	require.Len(t, r.list, 1)
}
