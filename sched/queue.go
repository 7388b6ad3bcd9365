package sched

import "slices"

// store holds the items of several queues. The zero value is empty.
type store struct {
	entries []*entry
	unused  FreeList[entry]
	index   map[uint64]*entry // by ID; nil until find is first called, to save time
	pushed  int64             // calls of add
}

// order is the position of an entry in its queue. Lower orders go first; they compare like slices.
type order [3]int64

// queue holds entries in order. It is made for entries that mostly arrive in order and leave at the
// front. The zero value is empty. A queue with entries must not be moved in memory.
type queue struct {
	items []*entry // the entries before head have left
	head  int
	line  *line // that the queue belongs to; nil for none
}

func (q *queue) len() int { return len(q.items) - q.head }

// first returns the first entry of a queue, or nil.
func (q *queue) first() *entry {
	if q.head < len(q.items) {
		return q.items[q.head]
	}
	return nil
}

// find returns the index of an entry, or of the place where it belongs.
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

// remove removes an entry, if it is in a queue.
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

// update moves an entry to another position; the zero order stands for none.
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

// entry is an item in a queue or, in a queue of groups, a group. Its order is set by queue alone;
// it is unique in the queue, and zero if the entry is in none.
type entry struct {
	Item
	order
	queue *queue // of the item; nil if the entry is unused
	group *group // the group itself, or the group of the item; nil for none
}

func (e *entry) compare(other *entry) int { return slices.Compare(e.order[:], other.order[:]) }

// add appends an item to the others of its rank in q.
func (s *store) add(q *queue, it *Item) *entry {
	s.pushed++
	return s.put(q, it, order{it.Rank, s.pushed})
}

// insert puts an item into q, where the items of each rank are in order of ID.
func (s *store) insert(q *queue, it *Item) *entry {
	return s.put(q, it, order{it.Rank, int64(it.ID)})
}

// put puts an item into q at a position.
func (s *store) put(q *queue, it *Item, at order) *entry {
	if len(s.unused) == 0 {
		s.entries = append(s.entries, &entry{})
		s.unused.Put(s.entries[len(s.entries)-1])
	}
	e := s.unused.Get()
	*e = entry{Item: *it, order: at, queue: q}
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
	if s.index != nil {
		delete(s.index, e.ID)
	}
	s.unused.Put(e)
	return e.Item
}

// find returns the entry of an ID, or nil.
func (s *store) find(id uint64) *entry {
	if s.index == nil {
		s.index = map[uint64]*entry{}
		for _, e := range s.entries {
			if e.queue != nil {
				s.index[e.ID] = e
			}
		}
	}
	return s.index[id]
}

// FreeList keeps unused values for reuse.
type FreeList[T any] []*T

// Get returns a value that was put back, unchanged, or a new one.
func (s *FreeList[T]) Get() *T {
	last := len(*s) - 1
	if last < 0 {
		return new(T)
	}
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// Put keeps a value for reuse.
func (s *FreeList[T]) Put(x *T) { *s = append(*s, x) }
