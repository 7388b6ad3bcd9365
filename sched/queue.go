package sched

import "slices"

// order is the position of an item in its queue. Lower orders go first; they compare like slices.
type order [3]int64

// queue holds items in order. It is made for items that mostly arrive in order and leave at the
// front. The zero value is empty. A queue with items must not be moved in memory.
type queue struct {
	items []*Item // the items before head have left
	head  int
	added int64 // calls of add
	line  *line // that the queue belongs to; nil for none
}

func (q *queue) len() int { return len(q.items) - q.head }

// first returns the first item of a queue, or nil.
func (q *queue) first() *Item {
	if q.head < len(q.items) {
		return q.items[q.head]
	}
	return nil
}

// find returns the index of an item, or of the place where it belongs.
func (q *queue) find(it *Item) int {
	i, _ := slices.BinarySearchFunc(q.items[q.head:], it, (*Item).compare)
	return q.head + i
}

// add appends an item to the others of its rank.
func (q *queue) add(it *Item) {
	q.added++
	it.move(q, order{it.Rank, q.added})
}

// insert puts an item into a queue in which the items of each rank are in order of ID.
func (q *queue) insert(it *Item) { it.move(q, order{it.Rank, int64(it.ID)}) }

// move moves an item to a position in q, which must be free; the zero order stands for none.
func (it *Item) move(q *queue, to order) {
	if it.queue == q && it.order == to {
		return
	}
	it.leave()
	if to == (order{}) {
		return
	}
	it.queue, it.order = q, to
	if q.head > 64 && q.head > q.len() {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	i := len(q.items)
	if q.len() > 0 && it.compare(q.items[i-1]) < 0 {
		i = q.find(it)
	}
	q.items = slices.Insert(q.items, i, it)
}

// leave takes an item out of its queue, if it is in one.
func (it *Item) leave() {
	q := it.queue
	switch {
	case q == nil:
		return
	case q.first() == it:
		q.head++
	default:
		i := q.find(it)
		q.items = slices.Delete(q.items, i, i+1)
	}
	it.queue = nil
}

func (it *Item) compare(other *Item) int { return slices.Compare(it.order[:], other.order[:]) }
