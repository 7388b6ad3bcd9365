// Package sched holds the data structures that decide which task runs next,
// where it runs, and in which order results appear. They are plain values for
// one goroutine: no locks, no clock, no I/O.
//
// Memory follows the largest number of items that were in at once, not the
// number that passed through. Once a policy has grown to its working size,
// nothing is allocated for an item without limits.
package sched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Item is a task as a policy sees it.
type Item struct {
	ID        uint64 // unique among the items that are in; from 1, in input order
	Key       uint64 // Hash of the task's key
	StableKey uint64 // Place of that, for "keyed"
	Cost      int64  // how heavy it is; at least 1
	Claim     *Claim // what it takes beside a place; nil for nothing. It matters to a Dispatcher alone.
	Rank      int64  // its place among the items that wait, mostly 0: a lower rank goes first, equal ranks in the policy's own order
}

// Slot is one of the numbered places where items run.
type Slot struct {
	ID     int      // from 1; kept small, since policies index by it
	Host   uint64   // Place of the machine it is on; 0 is this one
	Cap    int      // how many items it holds at once; less than 1 counts as 1
	Labels []uint64 // hashes; a topic whose key is the label of a slot has only such slots
	Stock  *Stock   // what its host has for Claim.Units, to a Dispatcher; nil for nothing
}

// Choice says which slots would take an item.
type Choice struct {
	Key   bool   // the policy goes by the item's key
	Slot  int    // the only slot, or 0 if there are several or none
	First uint64 // the item of its key that is next, or that the others of it wait for; 0 for none
	None  bool   // no slot has the label that is the key
	Free  int    // a slot with free capacity that would take the item, if it were queued alone, the emptiest; 0 for none
}

// Policy decides which slot runs which item.
//
// An item belongs to the policy from Push until release, or until Done with
// again=false. It is queued until pop, and then awaited until Take gives it to a slot, which
// holds it until Done. After Done with again=true it is awaited again: it is not queued,
// but keeps its position in the order of its key until it is pushed again, with
// the same ID and Key, taken or removed. What a slot gets is decided late: when it has free
// capacity, not when an item arrives.
//
// Among the queued items that a slot may run, peek returns one of the lowest Rank.
// Rank changes nothing else: an item still waits for its slot, topic or key. To
// give a queued item another Rank, remove it and push it again.
//
// Slots join and leave at any time; while there are none, items wait. A slot
// that has left takes no more items and keeps those it holds until their Done.
// It may join again before that, even with another host or capacity, and those
// items count against its capacity.
type Policy interface {
	// Push queues an item. It returns false and does nothing if the policy
	// has no slot for the item's key, which only "topic" does.
	Push(Item) bool
	// peek returns the next item for a slot that has free capacity, or nil.
	peek(slot int) *entry
	// pop takes an item out of its queue. If it is served, it is the one that peek has returned,
	// and awaited from now on.
	pop(e *entry, served bool) Item
	// Take has a slot hold an item, which is awaited or not in, until Done. It must
	// have free capacity. An item that is not in may take several places.
	Take(slot int, it Item)
	// Done ends an item on its slot. With again=true it is awaited.
	Done(slot int, it Item, again bool)
	// Choice says which slots would take an item, but for Free.
	Choice(it Item) Choice
	// fits reports whether a slot with free capacity would take an item, if it were queued alone.
	fits(it *Item, slot int) bool
	// release notes that an item is awaited no more. No slot may hold it.
	release(it Item)
	// Join adds a slot, which must not be in.
	Join(Slot)
	// Leave removes a slot, which must be in.
	Leave(id int)
	// settle follows after slots have joined or left, before anything else. Queued items move on as
	// the policy promises.
	settle()
	// Serial reports whether the policy itself runs the items of a key one at
	// a time, in order.
	Serial() bool
	// Len returns the number of queued items.
	Len() int

	base() *slots
}

// Config selects a policy.
type Config struct {
	Name   string
	Topics Topics // for "topic" alone
}

// New returns a policy without slots.
func New(cfg Config) (Policy, error) {
	p := &fifo{slots: newSlots()}
	switch cfg.Name {
	case "fifo":
	case "longest-first":
		p.sign = -1
	case "shortest-first":
		p.sign = 1
	case "least-busy":
		p.byCost = true
	case "round-robin", "keyed":
		return newKeyed(cfg.Name == "round-robin"), nil
	case "fair":
		return newFair(), nil
	case "topic":
		return newByTopic(cfg.Topics), nil
	default:
		return nil, fmt.Errorf("unknown policy %q", cfg.Name)
	}
	return p, nil
}

// maxTopicWorkers bounds the number of workers of a topic, so sums and products
// of such numbers do not overflow.
const maxTopicWorkers = 1 << 20

// Topic is a key with places of its own.
type Topic struct {
	Key     uint64 // Hash of its name
	Workers int    // the number of slots it asks for; at least 1
}

// Topics says which keys have places of their own. With Auto, every key with an
// item has some, and List and Rest are empty.
type Topics struct {
	Auto bool
	List []Topic
	Rest int // slots for all other keys; if 0, other keys are refused
}

// ParseTopics parses "auto" or a list such as "mail=2,db=1,*=5". A name is one or
// more bytes other than a comma. The last "=" separates it from its number of
// slots.
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
