package sched

import (
	"cmp"
	"slices"
)

// byRank holds a value for each of several ranks, the lowest rank first.
type byRank[T any] []ofRank[T]

type ofRank[T any] struct {
	rank int64
	x    T
}

// find returns the index of a rank and true, or where to insert it and false.
func (r byRank[T]) find(rank int64) (int, bool) {
	return slices.BinarySearchFunc(r, rank, func(e ofRank[T], rank int64) int { return cmp.Compare(e.rank, rank) })
}

func (r *byRank[T]) insert(i int, rank int64, x T) {
	*r = slices.Insert(*r, i, ofRank[T]{rank, x})
}

func (r *byRank[T]) delete(i int) { *r = slices.Delete(*r, i, i+1) }

// priorityQueue holds values by ID. It orders them by tier, the lowest first, within
// a tier by rank, and values of equal rank by tie. Most values are in tier 0.
// newPriorityQueue makes one.
type priorityQueue[T any] struct {
	normal heap[*queued[T]]         // tier 0
	others byRank[heap[*queued[T]]] // the other tiers; none is empty
	where  map[uint64]*queued[T]
	spare  spares[queued[T]]
}

type queued[T any] struct {
	id    uint64
	value T
	tier  int64
	pos   int // in the heap of that
}

func newPriorityQueue[T any]() priorityQueue[T] {
	return priorityQueue[T]{where: map[uint64]*queued[T]{}}
}

func (q *priorityQueue[T]) len() int { return len(q.where) }

// first returns the value that comes first. The queue must not be empty.
func (q *priorityQueue[T]) first() *queued[T] {
	if len(q.others) > 0 && (q.others[0].rank < 0 || q.normal.len() == 0) {
		return q.others[0].x.min()
	}
	return q.normal.min()
}

// put adds a value, for the caller to set, or replaces the one with that ID.
func (q *priorityQueue[T]) put(id uint64, tier, rank, tie int64) *T {
	q.remove(id)
	e := q.spare.take()
	e.id, e.tier = id, tier
	q.where[id] = e
	h := &q.normal
	if tier != 0 {
		i, found := q.others.find(tier)
		if !found {
			q.others.insert(i, tier, heap[*queued[T]]{})
		}
		h = &q.others[i].x
	}
	h.update(e, &e.pos, rank, tie)
	return &e.value
}

// remove removes a value and reports whether it was in.
func (q *priorityQueue[T]) remove(id uint64) bool {
	e := q.where[id]
	if e == nil {
		return false
	}
	if e.tier == 0 {
		q.normal.remove(&e.pos)
	} else {
		i, _ := q.others.find(e.tier)
		q.others[i].x.remove(&e.pos)
		if q.others[i].x.len() == 0 {
			q.others.delete(i)
		}
	}
	delete(q.where, id)
	q.spare.put(e)
	return true
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
