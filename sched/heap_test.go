package sched

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeapAgainstSlice(t *testing.T) {
	type elem struct{ rank, id, pos int }
	less := func(a, b *elem) bool { return a.rank < b.rank || a.rank == b.rank && a.id < b.id }
	rapid.Check(t, func(t *rapid.T) {
		var h heap[*elem]
		all := make([]*elem, 40)
		for i := range all {
			all[i] = &elem{id: i}
		}
		var in []*elem
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			e := all[rapid.IntRange(0, len(all)-1).Draw(t, "element")]
			had := slices.Index(in, e)
			if rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				h.remove(&e.pos)
				if had >= 0 {
					in = slices.Delete(in, had, had+1)
				}
			} else {
				e.rank = rapid.IntRange(0, 20).Draw(t, "rank")
				h.update(e, &e.pos, int64(e.rank), int64(e.id))
				if had < 0 {
					in = append(in, e)
				}
			}
			require.Equal(t, len(in), h.len())
			if len(in) > 0 {
				require.Same(t, slices.MinFunc(in, func(a, b *elem) int {
					if less(a, b) {
						return -1
					}
					return 1
				}), h.min())
			}
		}
	})
}
