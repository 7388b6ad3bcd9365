package sched

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Places are kept for an item although an earlier one has waited as long for units.
func TestPlacesAreKeptBesideUnits(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Caps: []int{2}, Parked: func(uint64, bool) {}})
	for id := range 4 {
		d.Join(Slot{ID: id + 1})
	}
	one := &Claim{Units: []Units{{0, 1}}}
	d.Push(Item{ID: 1, Claim: one})
	d.Next(d.now) // and it does not end
	d.Push(Item{ID: 2, Claim: &Claim{Units: []Units{{0, 2}}}})
	const wide = 200
	type held struct {
		it   Item
		slot int
	}
	var running []held
	passed := 0 // the wide one
	for id := uint64(3); id < 2*wide; id++ {
		it := Item{ID: id, Claim: one} // of which enough pass item 2
		if id == wide {
			it.Claim = &Claim{Places: 3}
		} else if id > wide-10 {
			it.Claim = nil
		}
		d.Push(it)
		for it, slot, _ := d.Next(d.now); slot != 0; it, slot, _ = d.Next(d.now) {
			if it.ID == wide {
				require.LessOrEqual(t, passed, patience*4+1)
				return
			}
			if running = append(running, held{it, slot}); id > wide {
				passed++
			}
		}
		if len(running) == 3 || d.wide != nil || id < wide-10 && len(running) > 0 {
			d.Done(running[0].slot, running[0].it, false)
			running = running[1:]
		}
	}
	require.Fail(t, "it never starts", "%d have passed it", passed)
}

// An item that claims all units of a host starts although smaller ones go on on all hosts, and these
// wait for it on one host alone.
func TestUnitsAreKeptOnOneHost(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Parked: func(uint64, bool) {}})
	for id := range 6 {
		if id%2 == 0 {
			d.Join(Slot{ID: id + 1, Host: uint64(id), Cap: 2, Stock: NewStock([]int{2})})
		} else {
			d.Join(Slot{ID: id + 1, Host: uint64(id), Cap: 2})
		}
	}
	small, large := &Claim{Units: []Units{{0, 1}}}, &Claim{Units: []Units{{0, 2}}}
	type held struct {
		it   Item
		slot int
	}
	var running []held
	const one = 100
	for id := uint64(1); id < 3*one; id++ {
		it := Item{ID: id, Claim: small}
		if id == one {
			it.Claim = large
		}
		d.Push(it)
		for it, slot, _ := d.Next(d.now); slot != 0; it, slot, _ = d.Next(d.now) {
			require.Equal(t, 1, slot%2, "where units are")
			if running = append(running, held{it, slot}); it.ID == one {
				require.LessOrEqual(t, id, uint64(one+patience*12+6))
				return
			}
		}
		if id >= 6 && id != one { // one ends for each that comes
			require.GreaterOrEqual(t, len(running), 4, "two hosts go on")
			d.Done(running[0].slot, running[0].it, false)
			running = running[1:]
		}
	}
	require.Fail(t, "it never starts")
}

// Units of a host that leaves are gone with it, and come back with it, less those that are held.
func TestStocksLeaveAndComeBack(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Parked: func(uint64, bool) {}})
	s := Slot{ID: 1, Host: 1, Cap: 3, Stock: NewStock([]int{2})}
	d.Join(s)
	d.Join(Slot{ID: 2, Cap: 3})
	c := &Claim{Units: []Units{{0, 1}}}
	start := func() (it Item, slot int) {
		it, slot, _ = d.Next(d.now)
		return it, slot
	}
	for id := range uint64(4) {
		d.Push(Item{ID: id + 1, Claim: c})
	}
	first, slot := start()
	require.Equal(t, 1, slot)
	d.Leave(1)
	_, slot = start()
	require.Zero(t, slot)
	require.Equal(t, ForStock, d.Waits(2))
	d.Join(s)
	_, slot = start()
	require.Equal(t, 1, slot)
	_, slot = start()
	require.Zero(t, slot, "one is held since before")
	require.Equal(t, ForUnits, d.Waits(3))
	d.Done(1, first, false)
	_, slot = start()
	require.Equal(t, 1, slot)
}

// While places are kept on a host, units are taken on others alone.
func TestUnitsBesidePlaces(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Parked: func(uint64, bool) {}})
	d.Join(Slot{ID: 1, Host: 1, Cap: 4, Stock: NewStock([]int{4})})
	d.Join(Slot{ID: 2, Host: 2, Cap: 3, Stock: NewStock([]int{3})})
	unit, wide := &Claim{Units: []Units{{0, 1}}}, &Claim{Places: 4}
	const one = 50
	var running []Item
	slots := map[uint64]int{}
	for id := uint64(1); id < 4*one; id++ {
		it := Item{ID: id, Claim: unit}
		if id == one {
			it.Claim = wide
		}
		d.Push(it)
		for it, slot, _ := d.Next(d.now); slot != 0; it, slot, _ = d.Next(d.now) {
			if it.ID == one {
				return
			}
			require.False(t, d.wide != nil && slot == 1, "it is kept")
			running, slots[it.ID] = append(running, it), slot
		}
		held := 0
		for _, it := range running {
			held += slots[it.ID] - 1
		}
		require.True(t, id < 7 || held == 3 || id == one, "the other host goes on")
		if id >= 7 && id != one {
			i := slices.IndexFunc(running, func(it Item) bool { return d.wide == nil || slots[it.ID] == 2 || id%4 == 0 })
			d.Done(slots[running[i].ID], running[i], false)
			running = slices.Delete(running, i, i+1)
		}
	}
	require.Fail(t, "it never starts")
}

// Units are not kept for an item that claims more than any host has beside them.
func TestNothingIsKeptForTheImpossible(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{Caps: []int{1}, Parked: func(uint64, bool) {}})
	d.Join(Slot{ID: 1, Host: 1, Cap: 2, Stock: NewStock([]int{1})})
	d.Push(Item{ID: 1, Claim: &Claim{Units: []Units{{0, 1}, {1, 2}}}})
	small := &Claim{Units: []Units{{0, 1}}}
	for id := uint64(2); id < 50; id++ {
		d.Push(Item{ID: id, Claim: small})
		it, slot, _ := d.Next(d.now)
		require.Equal(t, []uint64{id, 1}, []uint64{it.ID, uint64(slot)})
		d.Done(slot, it, false)
	}
	d.Join(Slot{ID: 2, Host: 2, Cap: 1, Stock: NewStock([]int{2})})
	d.Push(Item{ID: 50, Claim: small})
	it, slot, _ := d.Next(d.now)
	require.Equal(t, []uint64{1, 2}, []uint64{it.ID, uint64(slot)}, "it can start now")
}
