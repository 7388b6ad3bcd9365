package sched

import "slices"

// store holds the items of many queues. The zero store is empty.
type store struct {
	n      int
	made   []*entry
	unused spares[entry]
	index  map[uint64]*entry // by ID; nil until one is looked for: before, it would only cost time
	pushed int64
}

// queue holds items in order: mostly they come in order, and the first one goes. The zero queue is
// empty. A queue does not move while it has items.
type queue struct {
	items []*entry // those before head have gone
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

// min returns the first item of a queue, which must not be empty.
func (q *queue) min() *entry { return q.items[q.head] }

// find returns where an entry is, or would be.
func (q *queue) find(e *entry) int {
	i, _ := slices.BinarySearchFunc(q.items[q.head:], e, func(a, b *entry) int {
		switch {
		case a.less(&b.order):
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return q.head + i
}

func (q *queue) insert(e *entry) {
	if q.head > 64 && q.head > q.len() {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	i := len(q.items)
	if q.len() > 0 && e.less(&q.items[i-1].order) {
		i = q.find(e)
	}
	q.items = slices.Insert(q.items, i, e)
}

func (q *queue) remove(e *entry) {
	if q.min() == e {
		q.head++
		return
	}
	i := q.find(e)
	q.items = slices.Delete(q.items, i, i+1)
}

// entry is an item in a queue.
type entry struct {
	Item
	order
	in   *queue // nil if it is not used
	note int32  // for the user of the store; 0 at first
}

// Len returns the number of items in the store.
func (s *store) Len() int { return s.n }

// add puts an item into q behind those of its rank.
func (s *store) add(q *queue, it *Item) *entry {
	s.pushed++
	return s.put(q, it, s.pushed, 0)
}

// insert puts an item into q, in which the items of each rank are in order of ID.
func (s *store) insert(q *queue, it *Item) *entry { return s.put(q, it, int64(it.ID), 0) }

// put puts an item into q, in which the items of each rank are in order of two numbers.
func (s *store) put(q *queue, it *Item, a, b int64) *entry {
	if len(s.unused) == 0 {
		s.made = append(s.made, &entry{})
		s.unused.put(s.made[len(s.made)-1])
	}
	e := s.unused.take()
	*e = entry{Item: *it, order: order{it.Rank, a, b}, in: q}
	s.n++
	if s.index != nil {
		s.index[it.ID] = e
	}
	q.insert(e)
	return e
}

// cut takes an item out of its queue.
func (s *store) cut(e *entry) Item {
	e.in.remove(e)
	e.in = nil
	s.n--
	if s.index != nil {
		delete(s.index, e.ID)
	}
	s.unused.put(e)
	return e.Item
}

// find returns the entry of an ID, or nil.
func (s *store) find(id uint64) *entry {
	if s.index == nil {
		s.index = map[uint64]*entry{}
		for _, e := range s.made {
			if e.in != nil {
				s.index[e.ID] = e
			}
		}
	}
	return s.index[id]
}

// drop takes the item with an ID out of its queue, and reports whether it was in one.
func (s *store) drop(id uint64) bool {
	e := s.find(id)
	if e != nil {
		s.cut(e)
	}
	return e != nil
}

// spares is a free list.
type spares[T any] []*T

// take returns a spare value, as it was put back, or a new one.
func (s *spares[T]) take() *T {
	last := len(*s) - 1
	if last < 0 {
		return new(T)
	}
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

func (s *spares[T]) put(x *T) { *s = append(*s, x) }
