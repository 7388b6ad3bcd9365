package sched

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewKnowsItsNames(t *testing.T) {
	for _, c := range policies {
		p, err := New(Config{Name: c.name, Topics: topics(t, c.topics)})
		require.NoError(t, err, c.name)
		require.Zero(t, p.Ready(), c.name)
		require.Equal(t, c.name == "keyed", p.Serial(), c.name)
	}
	_, err := New(Config{Name: "lifo"})
	require.ErrorContains(t, err, `"lifo"`)
	for _, topics := range []Topics{{}, {Auto: true, Rest: 1}, {Auto: true, List: []Topic{{1, 1}}}} {
		_, err := New(Config{Name: "topic", Topics: topics})
		require.Error(t, err)
	}
}

func TestJoiningTwiceIsAnInternalError(t *testing.T) {
	for _, c := range policies {
		p, err := New(Config{Name: c.name, Topics: topics(t, c.topics)})
		require.NoError(t, err)
		wrong := func(f func()) {
			t.Helper()
			defer func() {
				require.Contains(t, recover(), "internal error: ", c.name)
			}()
			f()
		}
		p.Join(Slot{ID: 3})
		wrong(func() { p.Join(Slot{ID: 3, Host: 1}) })
		wrong(func() { p.Join(Slot{ID: 0}) })
		wrong(func() { p.Leave(2) })
		wrong(func() { p.Leave(4) })
		p.Leave(3)
		wrong(func() { p.Leave(3) })
		p.Join(Slot{ID: 3})
	}
}

// Items of unknown cost have the highest there is, and go in order.
func TestOrderOfCost(t *testing.T) {
	for name, want := range map[string][]uint64{"longest-first": {2, 4, 3, 5, 1, 6}, "shortest-first": {6, 1, 3, 5, 2, 4}} {
		p, err := New(Config{Name: name})
		require.NoError(t, err)
		p.Join(Slot{ID: 1})
		for i, cost := range []int64{5, math.MaxInt64, 70, math.MaxInt64, 70, 1} {
			p.Push(Item{ID: uint64(i + 1), Cost: cost})
		}
		var got []uint64
		for p.Ready() != 0 {
			it, _ := p.Pop(1)
			got = append(got, it.ID)
			p.Done(1, it, false)
		}
		require.Equal(t, want, got, name)
	}
}

func TestItemsGoInOrderOfRank(t *testing.T) {
	for _, c := range policies {
		p, err := New(Config{Name: c.name, Topics: topics(t, c.topics)})
		require.NoError(t, err)
		p.Join(Slot{ID: 1})
		item := func(id uint64, rank int64) Item { return Item{ID: id, Key: Hash("a"), Cost: 1, Rank: rank} }
		for id := range uint64(9) {
			p.Push(item(id+1, 0))
		}
		for i, id := range []uint64{5, 3, 7, 4, 1} {
			require.True(t, p.Remove(id))
			p.Push(item(id, []int64{-HandRank, -2 * HandRank, HandRank, 2 * HandRank, math.MinInt64}[i]))
		}
		p.Push(item(10, 0))
		p.Push(item(11, -2*HandRank))
		p.Push(item(12, math.MaxInt64))
		p.Push(item(13, HandRank))
		require.True(t, p.Remove(3))
		require.Equal(t, 12, p.Len())
		var got []uint64
		for p.Ready() != 0 {
			it, _ := p.Pop(1)
			got = append(got, it.ID)
			p.Done(1, it, false)
		}
		require.Equal(t, []uint64{1, 11, 5, 2, 6, 8, 9, 10, 7, 13, 4, 12}, got, "%v", c.name)
	}
}

// TestKeyedSpreads has keys queue before there is a slot.
func TestKeyedSpreads(t *testing.T) {
	p := newKeyed()
	for id := range uint64(40) {
		p.Push(Item{ID: id + 1, Key: Hash(string(rune(id))), Place: Place(string(rune(id))), Cost: 1})
	}
	for id := 1; id <= 4; id++ {
		p.Join(Slot{ID: id})
	}
	for range 4 {
		_, ok := p.Pop(p.Ready())
		require.True(t, ok)
	}
	require.Zero(t, p.Ready(), "each slot has one")
	for id := range 4 {
		require.Equal(t, 1, p.all[id+1].held)
	}
}
