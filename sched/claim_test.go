package sched

import (
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
