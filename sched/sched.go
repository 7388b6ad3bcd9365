// Package sched holds the data structures that decide which task runs next,
// where, and in which order results appear. All of them are plain values for
// one goroutine: no locks, no clock, no I/O, standard library only.
//
// Memory follows the most items that were ever in at once, not the number that
// went through, and nothing is allocated for an item once a structure has grown
// to its working size.
package sched

import "fmt"

// Item is a task as a policy sees it.
type Item struct {
	ID   uint64 // unique among the items that are in; in input order from 1
	Key  uint64 // hash of what ties tasks together; equal keys, equal values
	Cost int64  // how heavy it is; at least 1
}

// Block describes a queue in which items wait.
type Block struct {
	N      int    // items in it; 0 in the zero Block, which is no queue
	ID     uint64 // one of them, by which the name of its key can be found
	Key    uint64 // what they have in common, where OneKey is set
	OneKey bool   // all of them have this key
	Worker int    // the only worker that they wait for, or 0
}

// Policy is how tasks are given to workers. Workers are numbered from 1 to the
// size last given to Resize.
//
// An item is in from Push until Done without again, or Remove. It is queued
// until Pop gives it to a worker, which then holds it until Done. An item that
// Done left with again is awaited: it is queued no more, its place in the order
// of its key is kept, and it comes back by a Push with the same ID and Key or
// goes by Remove. Pop decides late: when a worker is free, not when a task
// arrives. A worker holds at most one item at a time, except that one given by
// Pop before a shrinking Resize stays where it is until its Done, even on a
// worker that is no more.
//
// A policy knows from Pop and Done which workers are idle, so that its user
// need not ask each of them:
//
//	for w := p.Ready(); w != 0; w = p.Ready() {
//		it, _ := p.Pop(w)
//		…
//	}
type Policy interface {
	// Push queues an item.
	Push(Item)
	// Ready is an idle worker for which there is an item, or 0 if there is
	// none. Its answer may change with every other method.
	Ready() int
	// Pop takes the next item for an idle worker, if there is one for it. It
	// gives nothing to a worker that holds an item or is no more.
	Pop(worker int) (Item, bool)
	// Done says that a worker is finished with the item that Pop gave it;
	// again says that the item is to be pushed once more.
	Done(worker int, it Item, again bool)
	// Remove takes out an item that is queued or awaited and says whether it
	// was queued. It does nothing to an item that a worker holds.
	Remove(id uint64) bool
	// Resize sets the number of workers; less than 1 is taken as 1. Queued
	// items move on as the policy promises; none is lost.
	Resize(workers int)
	// Len is the number of queued items.
	Len() int
	// Longest is the queue that holds the most items. It may look at all
	// queues, so it is for diagnostics, not for every task.
	Longest() Block
}

// New returns the policy of that name with a number of workers. The topics are
// for the policy "topic" alone and are not looked at by the others.
func New(name string, workers int, topics Topics) (Policy, error) {
	switch name {
	case "fifo":
		return NewFIFO(workers), nil
	case "round-robin":
		return NewRoundRobin(workers), nil
	case "least-busy":
		return NewLeastBusy(workers), nil
	case "keyed":
		return NewKeyed(workers), nil
	case "topic":
		if err := topics.Validate(); err != nil {
			return nil, err
		}
		return NewByTopic(workers, topics), nil
	}
	return nil, fmt.Errorf("unknown policy %q", name)
}

// Hash is the key of an item for a string: 64-bit FNV-1a, the same in every
// run and on every machine.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h
}
