package sched

import (
	"fmt"
	"testing"

	"crew/runner/crewtest"
)

const (
	maxSlot   = 9
	hostsUsed = 3 // at the end, each has a slot above maxSlot
)

// bySlot is indexed by slot ID.
type bySlot[T any] [maxSlot + 1 + hostsUsed]T

// slotState is the part of a model that tracks the slots.
type slotState struct {
	slots bySlot[Slot] // by ID; the ID of a slot that is not in is 0
	held  bySlot[int]
	joins bySlot[int] // how often each slot has joined
	ids   []int       // of the slots that are in, ascending
}

func (w *slotState) in(id int) bool   { return w.slots[id].ID != 0 }
func (w *slotState) cap(id int) int   { return max(w.slots[id].Places, 1) }
func (w *slotState) room(id int) bool { return w.in(id) && w.held[id] < w.cap(id) }

// model is a naive implementation of a policy: it keeps everything in slices, and searches them
// each time.
type model interface {
	push(it *Item)
	// next returns the next item for a slot with free capacity.
	next(slot int) (*Item, bool)
	pop(slot int, it *Item)
	done(slot int, it *Item, again bool)
	remove(id uint64)
	// change is called after a slot has joined or left.
	change(slot int)
	// before reports whether a is served before b, which has a higher ID.
	before(a, b int) bool
}

type holding struct {
	*Item
	slot   int
	joins  int // of the slot when it took the item
	places int
	stock  *[]Units // of the host
}

// modelled is a policy under test, and its model if there is one.
type modelled struct {
	name, topics string
	keys, labels int
	model        func(*slotState) model
}

var policies = []modelled{
	{"fifo", "auto", 8, 0, func(w *slotState) model { return &naiveFIFO{w: w} }},
	{"longest-first", "auto", 8, 0, func(w *slotState) model { return &naiveByCost{naiveFIFO{w: w}, -1} }},
	{"shortest-first", "auto", 8, 0, func(w *slotState) model { return &naiveByCost{naiveFIFO{w: w}, 1} }},
	{"round-robin", "auto", 8, 0, func(w *slotState) model { return &naiveRoundRobin{naiveFIFO{w: w}} }},
	{"least-busy", "auto", 8, 3, func(w *slotState) model { return &naiveLeastBusy{naiveFIFO: naiveFIFO{w: w}} }},
	{"keyed", "auto", 8, 0, func(w *slotState) model { return &naiveKeyed{w: w} }},
	{"fair", "auto", 8, 0, func(w *slotState) model { return &naiveFair{naiveFIFO: naiveFIFO{w: w}} }},
	{"topic", "*=4", 5, 3, func(w *slotState) model { return &naiveFIFO{w: w} }},
	{"topic", "a=1,b=2,c=3,d=1,e=1", 5, 0, nil},
	{"topic", "a=2,b=1,*=3", 5, 0, nil},
	{"topic", "auto", 12, 0, nil},
	{"topic", "a=1,b=2,c=3,d=1,e=1", 5, 3, nil},
	{"topic", "a=2,b=1,*=3", 5, 3, nil},
	{"topic", "auto", 12, 4, nil},
}

func TestDispatcherAgainstModels(t *testing.T) {
	for _, c := range policies {
		t.Run(fmt.Sprint(c.name, " ", c.topics, " ", c.labels), func(t *testing.T) {
			for round := range crewtest.Rounds(40) {
				d := newDriver(t, crewtest.Rand(t, round), c, round%2 > 0)
				for range 600 {
					d.step()
				}
				d.drain()
			}
		})
	}
}
