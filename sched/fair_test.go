package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// backlogs keeps keys of a fair policy supplied with items of random costs.
type backlogs struct {
	p      *fair
	r      *rand.Rand
	most   []int64 // by key: the highest cost
	served []int64 // by key
	last   uint64
}

func newBacklogs(most ...int64) *backlogs {
	b := &backlogs{p: newFair(), r: rand.New(rand.NewPCG(1, 2)), most: most, served: make([]int64, len(most))}
	for id := range 3 {
		b.p.Join(Slot{ID: id + 1, Cap: id + 1})
	}
	return b
}

func (b *backlogs) push(key int) {
	b.last++
	b.p.Push(Item{ID: b.last, Key: uint64(key), Cost: 1 + b.r.Int64N(b.most[key])})
}

// serve serves an item, and returns its key.
func (b *backlogs) serve() int {
	slot := b.p.Ready()
	it, _ := b.p.Pop(slot)
	b.p.Done(slot, it, false)
	b.served[it.Key] += it.Cost
	return int(it.Key)
}

// Over any interval in which two keys have queued items, what they are served differs by no
// more than their two largest costs.
func TestFairServesEqualCosts(t *testing.T) {
	b := newBacklogs(1, 3, 10, 100, 100, 1000, 5000)
	keys := len(b.most)
	type span struct{ least, most int64 }
	ahead := make([]span, keys*keys) // of how much one key was served more than another
	for key := range keys {
		b.push(key)
		b.push(key)
	}
	for range 200_000 {
		b.push(b.serve())
		for i := range keys {
			for j := range i {
				s, d := &ahead[i*keys+j], b.served[i]-b.served[j]
				s.least, s.most = min(s.least, d), max(s.most, d)
				holds(t, s.most-s.least <= b.most[i]+b.most[j], "keys %d and %d: %v", i, j, *s)
			}
		}
	}
	require.Greater(t, b.served[0], int64(100_000))
}

// A key that was away has neither credit, for when another was served, nor debt, for when it
// was served itself.
func TestFairForgetsKeysThatAreAway(t *testing.T) {
	for _, backlog := range []int{0, 1, 100} {
		b := newBacklogs(20, 20)
		for range backlog {
			b.push(0)
		}
		for range 1000 {
			b.push(0)
			b.serve()
		}
		b.push(0)
		b.push(1)
		b.served = make([]int64, 2)
		for range 1000 {
			b.push(b.serve())
			d := b.served[0] - b.served[1]
			holds(t, -40 <= d && d <= 40, "key 0 was served %d more", d)
		}
	}
}

// A few items go among the first ones of a long backlog.
func TestFairLetsAFewItemsThrough(t *testing.T) {
	b := newBacklogs(1, 1)
	for range 1000 {
		b.push(0)
	}
	for range 500 {
		b.serve()
	}
	b.push(1)
	b.push(1)
	require.ElementsMatch(t, []int{0, 1, 0, 1}, []int{b.serve(), b.serve(), b.serve(), b.serve()})
	require.Equal(t, 498, b.p.Len())
}

// That rounds begin anew, and that costs are bounded, changes no order and overflows nothing.
func TestFairBeginsItsRoundsAnew(t *testing.T) {
	const most = 1 << 40
	b := newBacklogs(16*most, most/100, most, most/2)
	late := newBacklogs(b.most...) // the same, but many rounds later
	for key := range 4 {
		b.push(key)
		late.push(key)
	}
	first := late.p.tiers[0].x
	first.round = lastRound - 10*most
	for _, a := range first.keys {
		a.since += first.round
		late.p.reorder(first, a)
	}
	rewound := false
	for range 100_000 {
		before := late.p.tiers[0].x.round
		key := b.serve()
		holds(t, key == late.serve(), "another key than without")
		b.push(key)
		late.push(key)
		rewound = rewound || late.p.tiers[0].x.round < before
	}
	require.True(t, rewound)
}
