package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgesRandom(t *testing.T) {
	type waiting struct {
		own, rank int64
		passed    int
	}
	for range 40 {
		a := newAges()
		m := map[uint64]*waiting{}
		last := uint64(0)
		for range 3000 {
			id := anyOf(m)
			switch op := rand.IntN(10); {
			case op < 4:
				last++
				it := Item{ID: last, Rank: []int64{-3, -2, 0, 0, 0, 1, HandRank, -HandRank}[rand.IntN(8)]}
				a.add(&it)
				if it.Rank > -HandRank && it.Rank < HandRank {
					m[last] = &waiting{own: it.Rank, rank: it.Rank}
				}
			case op < 5:
				a.remove(id)
				delete(m, id)
			case id != 0:
				it := Item{ID: id, Rank: m[id].rank}
				delete(m, id)
				raised := map[uint64]bool{}
				for id, w := range m {
					if it.Rank > w.rank || it.Rank >= w.own {
						continue
					}
					if w.passed++; w.passed%step == 0 {
						w.rank--
						raised[id] = true
					}
				}
				a.start(&it, func(it Item) {
					require.True(t, raised[it.ID])
					require.Equal(t, m[it.ID].rank, it.Rank)
					delete(raised, it.ID)
				})
				require.Empty(t, raised)
			}
			require.Equal(t, len(m), a.fresh.n+a.raised.n)
		}
	}
}

// However many items of a higher priority come, one of a lower one waits for 64 starts for each
// step between them at most, and for those that are before it then.
func TestAgesNoneWaitsForEver(t *testing.T) {
	for _, name := range []string{"fifo", "longest-first", "shortest-first", "fair", "least-busy", "round-robin"} {
		p, _ := New(Config{Name: name})
		d := NewDispatcher(p, Limits{Ages: true, Caps: []int{1}, Parked: func(uint64, bool) {}})
		d.Join(Slot{ID: 1, Cap: 2})
		gpu := &Claim{Units: []Units{{0, 1}}}
		claim := func(id uint64) *Claim {
			if id%2 == 0 {
				return gpu
			}
			return nil
		}
		d.Push(Item{ID: 1, Rank: 3, Cost: 1})
		d.Push(Item{ID: 2, Rank: 3, Cost: 1, Claim: gpu})
		id, began := uint64(2), map[uint64]int{}
		for n := range 2000 {
			for d.Len()+d.parked.n < 10 {
				id++
				d.Push(Item{ID: id, Cost: 100, Claim: claim(id)})
			}
			it, slot, _ := d.Next(d.now)
			require.NotZero(t, slot)
			began[it.ID] = n
			d.Done(slot, it, false)
		}
		require.Contains(t, began, uint64(1), name)
		require.Contains(t, began, uint64(2), name)
		require.LessOrEqual(t, began[1], 5*step+15, name)
		require.LessOrEqual(t, began[2], 5*step+15, name)
	}
}

// Many items come to another rank at once, in order, and each is found by an index.
func TestAgesRaiseMany(t *testing.T) {
	const n = 1000
	p := &fifo{slots: newSlots(), slab: newSlab()}
	d := NewDispatcher(p, Limits{Ages: true})
	d.Join(Slot{ID: 1})
	for id := range uint64(n + step) {
		d.Push(Item{ID: id + 1, Rank: -3 * int64(id/n), Cost: 1})
	}
	require.Nil(t, p.where)
	for i := range uint64(n + step) {
		it, slot, _ := d.Next(d.now)
		require.Equal(t, (i+n)%(n+step)+1, it.ID)
		d.Done(slot, it, false)
	}
	require.NotNil(t, p.where)
	require.Empty(t, p.where)
}

// What was parked goes before others of its rank, and not before those of a higher priority.
func TestDispatcherKeepsPriorities(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Ages: true, Caps: []int{1}, Parked: func(uint64, bool) {}})
	d.Join(Slot{ID: 1, Cap: 2})
	gpu := &Claim{Units: []Units{{0, 1}}}
	for id := range uint64(3) {
		d.Push(Item{ID: id + 1, Rank: 5, Cost: 1, Claim: gpu})
	}
	first, slot, _ := d.Next(d.now)
	_, none, _ := d.Next(d.now)
	require.Zero(t, none)
	d.Push(Item{ID: 4, Rank: 5, Cost: 1})
	d.Push(Item{ID: 5, Rank: -5, Cost: 1})
	d.Done(slot, first, false)
	var got []uint64
	for it, slot, _ := d.Next(d.now); slot != 0; it, slot, _ = d.Next(d.now) {
		got = append(got, it.ID)
		d.Done(slot, it, false)
	}
	require.Equal(t, []uint64{5, 2, 3, 4}, got)
}
