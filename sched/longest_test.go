package sched

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naiveLongest is the queue in the order in which it is to be served.
type naiveLongest struct{ naiveFIFO }

func (m *naiveLongest) push(it Item) {
	m.queue = append(m.queue, it)
	slices.SortFunc(m.queue, func(a, b Item) int {
		if a.Cost != b.Cost {
			return int(b.Cost - a.Cost)
		}
		return byID(a.ID, b.ID)
	})
}

func TestLongestFirstAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		n := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		d := newDriver(t, n, NewLongestFirst(workers), &naiveLongest{}, workers, 5)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			d.step()
		}
		d.drain()
	})
}

func TestLongestFirst(t *testing.T) {
	p := NewLongestFirst(1)
	for id, cost := range []int64{1: 5, 2: math.MaxInt64, 3: 70, 4: math.MaxInt64, 5: 70, 6: 1} {
		if id > 0 {
			p.Push(Item{ID: uint64(id), Cost: cost})
		}
	}
	var got []uint64
	for p.Ready() != 0 {
		it, _ := p.Pop(1)
		got = append(got, it.ID)
		p.Done(1, it, false)
	}
	require.Equal(t, []uint64{2, 4, 3, 5, 1, 6}, got, "unknown ones as they came, then the longest first")
}
