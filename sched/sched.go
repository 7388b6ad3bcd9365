// Package sched holds the data structures that decide which task runs next,
// where it runs, and in which order results appear. They are plain values for
// one goroutine: no locks, no clock, no I/O.
//
// Memory follows the largest number of items that were in at once, not the
// number that passed through, and nothing is allocated per item once a
// structure has grown to its working size.
package sched

import (
	"errors"
	"fmt"
)

// Item is a task as a policy sees it.
type Item struct {
	ID   uint64 // unique among the items that are in; from 1, in input order
	Key  uint64 // hash of what ties tasks together
	Cost int64  // how heavy it is; at least 1
}

// Slot is a place where items run.
type Slot struct {
	ID   int    // from 1; kept small, since policies index by it
	Host uint64 // the machine it is on; 0 is this one
	Cap  int    // how many items it holds at once; less than 1 counts as 1
}

// Block describes a queue of waiting items.
type Block struct {
	N      int    // items in it; 0 in the zero Block, which is no queue
	ID     uint64 // one of them, from which the name of its key can be found
	Key    uint64 // the key of all of them, if OneKey is set
	OneKey bool
	Slot   int // the only slot that they wait for, or 0
}

// Policy decides which slot runs which item.
//
// An item belongs to the policy from Push until Remove, or until Done with
// again=false. It is queued until Pop gives it to a slot, which then holds it
// until Done. After Done with again=true it is awaited: it is not queued, but
// keeps its place in the order of its key until it is pushed again, with the
// same ID and Key, or removed. Pop decides late: when a slot has free capacity,
// not when an item arrives.
//
// Slots join and leave at any time, and there may be none for a while: items
// then wait. A slot that has left takes no more items; it keeps those it holds
// until their Done. It may join again before that, with another host or
// capacity, and they count against its capacity.
type Policy interface {
	// Push queues an item. It returns false and does nothing if the policy
	// has no slot for the item's key, which only "topic" does.
	Push(Item) bool
	// Ready returns a slot with free capacity for which there is an item, or
	// 0 if there is none, so the user need not try Pop with every slot. A call
	// of any other method may change the answer.
	Ready() int
	// Pop returns the next item for a slot, if there is one and the slot is in
	// and has free capacity.
	Pop(slot int) (Item, bool)
	// Done ends an item, as Pop returned it, on its slot; again means that the
	// item will be pushed once more.
	Done(slot int, it Item, again bool)
	// Remove removes an item that is queued or awaited, and reports whether it
	// was queued. It does nothing to an item that a slot holds.
	Remove(id uint64) bool
	// Join adds a slot, which must not be in.
	Join(Slot)
	// Leave removes a slot, which must be in. Queued items move on as the
	// policy promises.
	Leave(id int)
	// Balance shares the slots of automatic topics out anew and is meant to be
	// called about once a second; other policies do nothing. most returns how
	// many slots a key may have at most, math.MaxInt for no limit.
	Balance(most func(key uint64) int)
	// Serial reports whether the policy itself runs the items of a key one at
	// a time, in order.
	Serial() bool
	// Len is the number of queued items.
	Len() int
	// Longest is the queue that holds the most items. It may look at all
	// queues, so it is for diagnostics, not for every task.
	Longest() Block
}

// Config says which policy to make.
type Config struct {
	Name   string
	Topics Topics // for "topic" alone
}

// New returns a policy without slots.
func New(cfg Config) (Policy, error) {
	switch cfg.Name {
	case "fifo":
		return &fifo{slots: newSlots()}, nil
	case "longest-first":
		return &longestFirst{slots: newSlots(), queue: newPriorityQueue[Item]()}, nil
	case "round-robin":
		return &roundRobin{slots: newSlots(), slab: newSlab()}, nil
	case "least-busy":
		return newLeastBusy(), nil
	case "keyed":
		return newKeyed(), nil
	case "topic":
		if t := cfg.Topics; t.Auto == (len(t.List) > 0 || t.Rest > 0) {
			return nil, errors.New("topics are either automatic or listed")
		}
		return newByTopic(cfg.Topics), nil
	}
	return nil, fmt.Errorf("unknown policy %q", cfg.Name)
}
