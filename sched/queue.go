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

// order is the place of an element in a queue: the lowest first number goes first, and among equals
// the lowest second one, and then third one.
type order [3]int64

func (o *order) at() *order { return o }

func (o *order) less(b *order) bool {
	if o[0] != b[0] {
		return o[0] < b[0]
	}
	return o[1] < b[1] || o[1] == b[1] && o[2] < b[2]
}

// ordered is an element of a queue, or of none: then its order is zero. No two of a queue have the
// same one, which a queue alone changes.
type ordered interface {
	comparable
	at() *order
}

// queue holds elements in order: mostly they come in order, and the first one goes. The zero queue is
// empty. A queue of entries does not move while it has any.
type queue[T ordered] struct {
	items []T // those before head have gone
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// min returns the first element of a queue, or nil.
func (q *queue[T]) min() (first T) {
	if q.head < len(q.items) {
		first = q.items[q.head]
	}
	return first
}

// find returns where an element is, or would be.
func (q *queue[T]) find(e T) int {
	i, _ := slices.BinarySearchFunc(q.items[q.head:], e, func(a, b T) int {
		switch {
		case a.at().less(b.at()):
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return q.head + i
}

func (q *queue[T]) insert(e T) {
	if q.head > 64 && q.head > q.len() {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	i := len(q.items)
	if q.len() > 0 && e.at().less(q.items[i-1].at()) {
		i = q.find(e)
	}
	q.items = slices.Insert(q.items, i, e)
}

// remove removes an element, unless it is in no queue.
func (q *queue[T]) remove(e T) {
	switch {
	case *e.at() == (order{}):
		return
	case q.min() == e:
		q.head++
	default:
		i := q.find(e)
		q.items = slices.Delete(q.items, i, i+1)
	}
	*e.at() = order{}
}

// update gives an element a place, perhaps another one, or none.
func (q *queue[T]) update(e T, to order) {
	if *e.at() == to {
		return
	}
	q.remove(e)
	if to != (order{}) {
		*e.at() = to
		q.insert(e)
	}
}

// entry is an item in a queue.
type entry struct {
	Item
	order
	in *queue[*entry] // nil if it is not used
}

// Len returns the number of items in the store.
func (s *store) Len() int { return s.n }

// add puts an item into q behind those of its rank.
func (s *store) add(q *queue[*entry], it *Item) *entry {
	s.pushed++
	return s.put(q, it, order{it.Rank, s.pushed})
}

// insert puts an item into q, in which the items of each rank are in order of ID.
func (s *store) insert(q *queue[*entry], it *Item) *entry {
	return s.put(q, it, order{it.Rank, int64(it.ID)})
}

// put puts an item into a place of q.
func (s *store) put(q *queue[*entry], it *Item, at order) *entry {
	if len(s.unused) == 0 {
		s.made = append(s.made, &entry{})
		s.unused.put(s.made[len(s.made)-1])
	}
	e := s.unused.take()
	*e = entry{Item: *it, order: at, in: q}
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
