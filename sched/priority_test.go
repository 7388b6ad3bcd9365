package sched

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// However many items of a higher priority come, one of a lower one waits for 64 starts for each
// step between them at most, and for those that are before it then.
func TestPrioritiesNoneWaitsForEver(t *testing.T) {
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
		for n := range 400 {
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
	require.Equal(t, []uint64{5, 2, 3, 4}, d.rest())
}

// rest starts all items one after another and returns them.
func (d *Dispatcher) rest() (ids []uint64) {
	for it, slot, _ := d.Next(d.now); slot != 0; it, slot, _ = d.Next(d.now) {
		ids = append(ids, it.ID)
		d.Done(slot, it, false)
	}
	return ids
}

// What waits for places or units is not passed by items of a lower priority that take them, but
// by 4 for each place of its own.
func TestDispatcherIsNotPassedByLowerPriorities(t *testing.T) {
	for _, name := range []string{"fifo", "longest-first", "fair", "least-busy", "keyed"} {
		for _, claim := range []*Claim{{Places: 4}, {Units: []Units{{0, 2}}}} {
			p, _ := New(Config{Name: name})
			d := NewDispatcher(p, Limits{Ages: true, Caps: []int{2}, Parked: func(uint64, bool) {}})
			d.Join(Slot{ID: 1, Cap: 4})
			one := &Claim{Units: []Units{{0, 1}}}
			push := func(id uint64, rank int64, c *Claim) { d.Push(Item{ID: id, Key: id, Cost: 1, Rank: rank, Claim: c}) }
			push(1, 0, one)
			first, slot, _ := d.Next(d.now)
			push(2, -1, claim)
			push(3, -1, one)
			for id := range uint64(30) {
				push(id+4, 0, one)
			}
			same, other, _ := d.Next(d.now)
			require.EqualValues(t, 3, same.ID)
			d.Done(other, same, false)
			_, none, _ := d.Next(d.now)
			require.Zero(t, none, "%s: passed", name)
			d.Done(slot, first, false)
			require.EqualValues(t, 2, d.rest()[0])
		}
	}
}
