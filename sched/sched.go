// Package sched decides which task starts next, in which slot, and in which order results appear.
// Its types are plain data structures for one goroutine: no locks, no clock, no I/O.
//
// A Policy orders the waiting items and assigns them to slots: by age or cost (fifo.go), by shares
// (fair.go), by key (keyed.go) or by topic (topic.go). A Dispatcher puts limits in front of a
// Policy. To find the item that starts next, Dispatcher.Next goes through these steps:
//
//  1. Limits that concern all items must allow a start: Delay, Rate and Allow (dispatch.go).
//  2. The policy names an item for a slot with free capacity.
//  3. The gate of the item's key must be open: PerKey and KeyRate (gate.go).
//  4. The item takes what it claims: several places, or units of limits by name (claim.go).
//
// Steps 3 and 4 park the item until the limit allows it, so that others can pass it. An item whose gate
// was closed starts before all others of its rank, even if it waits for a slot only.
//
// The other types stand alone: Delay and Rate tell when something is due, Auto chooses the number of
// workers, and Reorder and Ranges keep track of sequences.
//
// Memory is proportional to the largest number of items that were in at once, not to the number
// that passed through.
package sched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Item is a task as a policy sees it. It must not be copied, or changed while it is queued.
type Item struct {
	ID        uint64 // unique among the items that are in; from 1, in input order
	Key       uint64 // Hash of the task's key
	StableKey uint64 // StableHash of that key, for "keyed"
	Cost      int64  // how expensive the task is; at least 1
	Claim     *Claim // its needs beside a place; nil for none; only a Dispatcher looks at it
	Rank      int64  // a lower rank goes first, equal ranks in the policy's own order; mostly 0

	order         // in its queue
	queue  *queue // nil if it is in none
	group  *group // of its key; nil for none
	host   *host  // where it has taken what it claims; nil if it has not
	beside []int  // slots of the places that it has taken beside its own
}

// Slot is one of the numbered places where items run.
type Slot struct {
	ID     int      // from 1; small, since policies index by it
	Host   uint64   // StableHash of its machine's name; 0 for this machine
	Places int      // how many items it holds at once; less than 1 counts as 1
	Labels []uint64 // hashes of its labels, for "topic"
	Offers *[]Units // units that its host offers, shared by the slots with this pointer; nil for none; only a Dispatcher looks at it; a name in Limits.Caps has no effect
}

// Choice says which slots would take an item.
type Choice struct {
	Key   bool   // the policy goes by the item's key
	Slot  int    // the only such slot; 0 if there are several or none
	First uint64 // the next item of its key, or the item that all others of the key wait for; 0 for none
	None  bool   // the key is a label that no slot has
}

// Policy decides which slot runs which item.
//
// An item is in the policy from Push until release, or until Done with again=false. It is queued
// from Push until pop. From pop until Take it is awaited, and from Take until Done a slot holds it.
// After Done with again=true it is awaited once more: it is not queued, but keeps its position in
// the order of its key until it is pushed again with the same ID and Key, taken or removed. An item
// gets its slot late: when the slot has free capacity, not when the item arrives.
//
// Among the queued items that a slot may run, peek returns one with the lowest Rank. Rank has no
// other effect: the item still waits for its slot, topic or key. To change the Rank of a queued
// item, remove the item and push it again.
//
// Slots join and leave at any time; without slots, items wait. A slot that has left takes no more
// items, and keeps the items that it holds until their Done. It may join again before that, even
// with another host or capacity; these items then count against its capacity.
type Policy interface {
	// Push queues an item. It returns false and does nothing if no slot will ever take the item's
	// key, as may happen with "topic".
	Push(*Item) bool
	// peek returns the next item for a slot with free capacity, or nil.
	peek(slot int) *Item
	// pop removes an item from its queue. If served is true, it must come from the latest peek, and
	// is awaited from now on.
	pop(it *Item, served bool)
	// Take makes a slot hold an item until Done. The slot must have free capacity, and the item
	// must be awaited or not in. An item that is not in may take several places.
	Take(slot int, it *Item)
	// Done ends an item in its slot. With again=true it is awaited.
	Done(slot int, it *Item, again bool)
	// Choice says which slots would take an item.
	Choice(it *Item) Choice
	// fits reports whether a slot with free capacity would take an item if it were queued alone.
	fits(it *Item, slot int) bool
	// release notes that an item is no longer awaited. No slot may hold it.
	release(it *Item)
	// Join adds a slot, which must not be in.
	Join(Slot)
	// Leave removes a slot, which must be in.
	Leave(id int)
	// settle moves queued items as the policy promises. It is called after slots have joined or
	// left, before anything else.
	settle()
	// Serial reports whether the policy itself runs the items of a key one at a time, in order.
	Serial() bool

	base() *slots
}

// New returns a policy without slots; topics are for "topic". The names are the choices of --sched and, for the orders by cost,
// of --order. A new name also goes into the row of --sched in front/cli/options.go, into crew(1) and
// crew(7), and into the list in model_test.go. What a policy needs or excludes is in front/cli/rules.txt,
// in wiring.plan.planReadAhead, and at SameWeight in front/wiring/source.go.
func New(name string, topics Topics) Policy {
	p := &fifo{slots: newSlots()}
	switch name {
	case "fifo":
	case "longest-first":
		p.sign = -1
	case "shortest-first":
		p.sign = 1
	case "least-busy":
		p.byCost = true
	case "round-robin", "keyed":
		return newKeyed(name == "round-robin")
	case "fair":
		return newFair()
	case "topic":
		return newByTopic(topics)
	default:
		panic("internal error: there is no policy " + name)
	}
	return p
}

// maxTopicWorkers bounds the workers of a topic, so that sums and products of such numbers do not
// overflow.
const maxTopicWorkers = 1 << 20

// Topic is a key with places of its own.
type Topic struct {
	Key     uint64 // Hash of its name
	Workers int    // how many slots it asks for; at least 1
}

// Topics says which keys have places of their own. With Auto, every key with an item has some, and
// List and Rest are empty.
type Topics struct {
	Auto bool
	List []Topic
	Rest int // slots for all other keys; if 0, these are refused
}

// ParseTopics parses "auto" or a list like "mail=2,db=1,*=5". A name has one or more bytes, and no
// comma. The last "=" separates it from its number of slots.
func ParseTopics(s string) (Topics, error) {
	if s == "auto" {
		return Topics{Auto: true}, nil
	}
	var t Topics
	for part := range strings.SplitSeq(s, ",") {
		i := strings.LastIndexByte(part, '=')
		if i < 1 {
			return Topics{}, errors.New("write auto, or each topic once with its workers: mail=2,db=1,*=5")
		}
		name, workers := part[:i], part[i+1:]
		n, err := strconv.Atoi(workers)
		switch {
		case err != nil || n < 1 || n > maxTopicWorkers:
			return Topics{}, fmt.Errorf("topic %q: %q is not a number of workers from 1 to %d", name, workers, maxTopicWorkers)
		case name == "*" && t.Rest > 0 || slices.ContainsFunc(t.List, func(o Topic) bool { return o.Key == Hash(name) }):
			return Topics{}, fmt.Errorf("topic %q is listed twice", name)
		case name == "*":
			t.Rest = n
		default:
			t.List = append(t.List, Topic{Key: Hash(name), Workers: n})
		}
	}
	return t, nil
}

// Workers returns how many slots the topics ask for together; 0 with Auto.
func (t Topics) Workers() int {
	n := t.Rest
	for _, o := range t.List {
		n += o.Workers
	}
	return n
}
