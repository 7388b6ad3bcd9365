// Package sched holds the data structures that decide which task runs next,
// where, and in which order results appear. All of them are plain values for
// one goroutine: no locks, no clock, no I/O, standard library only.
package sched

// Item is a task as a policy sees it.
type Item struct {
	ID   uint64 // unique among the items that are in
	Key  uint64 // hash of what ties tasks together; equal keys, equal values
	Cost int64  // how heavy it is; at least 1
}

// Policy is how tasks are given to workers. Workers are numbered from 1 to the
// size last given to Resize.
//
// An item is in from Push until Done or Remove. It is queued until Pop gives it
// to a worker, which then holds it until Done. Pop decides late: when a worker
// is free, not when a task arrives. A worker holds at most one item at a time,
// except that one given by Pop before a shrinking Resize stays where it is
// until its Done, even on a worker that is no more.
type Policy interface {
	// Push queues an item.
	Push(Item)
	// Pop takes the next item for an idle worker, if there is one for it.
	Pop(worker int) (Item, bool)
	// Done says that a worker is finished with an item that Pop gave it.
	Done(worker int, it Item)
	// Remove takes a queued item out and says whether it was queued.
	Remove(id uint64) bool
	// Resize sets the number of workers, at least 1. Queued items move on as
	// the policy promises; none is lost.
	Resize(workers int)
	// Len is the number of queued items.
	Len() int
}
