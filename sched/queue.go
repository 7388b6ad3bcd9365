package sched

import "slices"

// store holds the items of many queues. The zero store is empty.
type store struct {
	n      int
	all    []*entry
	unused freeList[entry]
	index  map[uint64]*entry // by ID; nil until one is looked for: before, it would only cost time
	pushed int64
}

// order is the place of an element in a queue: the lowest first number goes first, and among equals
// the lowest second one, and then third one.
type order [3]int64

// queue holds entries in order: mostly they come in order, and the first one goes. The zero queue is
// empty. A queue does not move while it has any.
type queue struct {
	items []*entry // those before head have gone
	head  int
	line  *line // whose queue it is; nil for none
}

func (q *queue) len() int { return len(q.items) - q.head }

// first returns the first entry of a queue, or nil.
func (q *queue) first() *entry {
	if q.head < len(q.items) {
		return q.items[q.head]
	}
	return nil
}

// find returns where an entry is, or would be.
func (q *queue) find(e *entry) int {
	i, _ := slices.BinarySearchFunc(q.items[q.head:], e, (*entry).compare)
	return q.head + i
}

func (q *queue) insert(e *entry) {
	if q.head > 64 && q.head > q.len() {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	i := len(q.items)
	if q.len() > 0 && e.compare(q.items[i-1]) < 0 {
		i = q.find(e)
	}
	q.items = slices.Insert(q.items, i, e)
}

// remove removes an entry, unless it is in no queue.
func (q *queue) remove(e *entry) {
	switch {
	case e.order == (order{}):
		return
	case q.first() == e:
		q.head++
	default:
		i := q.find(e)
		q.items = slices.Delete(q.items, i, i+1)
	}
	e.order = order{}
}

// update gives an entry a place, perhaps another one, or none.
func (q *queue) update(e *entry, to order) {
	if e.order == to {
		return
	}
	q.remove(e)
	if to != (order{}) {
		e.order = to
		q.insert(e)
	}
}

// entry is an item in a queue or, in one of groups, a group. Its order is zero if it is in none. No
// two of a queue have the same one, which a queue alone changes.
type entry struct {
	Item
	order
	queue *queue // of the item; nil if it is not used
	group *group // that it is, or that the item is in; nil for none
}

func (e *entry) compare(other *entry) int { return slices.Compare(e.order[:], other.order[:]) }

// Len returns the number of items in the store.
func (s *store) Len() int { return s.n }

// add puts an item into q behind those of its rank.
func (s *store) add(q *queue, it *Item) *entry {
	s.pushed++
	return s.put(q, it, order{it.Rank, s.pushed})
}

// insert puts an item into q, in which the items of each rank are in order of ID.
func (s *store) insert(q *queue, it *Item) *entry {
	return s.put(q, it, order{it.Rank, int64(it.ID)})
}

// put puts an item into a place of q.
func (s *store) put(q *queue, it *Item, at order) *entry {
	if len(s.unused) == 0 {
		s.all = append(s.all, &entry{})
		s.unused.put(s.all[len(s.all)-1])
	}
	e := s.unused.get()
	*e = entry{Item: *it, order: at, queue: q}
	s.n++
	if s.index != nil {
		s.index[it.ID] = e
	}
	q.insert(e)
	return e
}

// remove takes an item out of its queue.
func (s *store) remove(e *entry) Item {
	e.queue.remove(e)
	e.queue = nil
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
		for _, e := range s.all {
			if e.queue != nil {
				s.index[e.ID] = e
			}
		}
	}
	return s.index[id]
}

// freeList is a free list.
type freeList[T any] []*T

// get returns a spare value, as it was put back, or a new one.
func (s *freeList[T]) get() *T {
	last := len(*s) - 1
	if last < 0 {
		return new(T)
	}
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

func (s *freeList[T]) put(x *T) { *s = append(*s, x) }
