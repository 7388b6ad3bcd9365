package sched

// heap is an indexed binary heap: each element knows its place in it, so an
// element can be removed or given a new priority in O(log n). An element is in
// at most once. newHeap makes one.
type heap[T any] struct {
	items []ranked[T]
	place func(T) *int
}

// ranked is an element with its priority. The priority is stored beside the
// element so that a comparison needs neither a call nor a look at the element.
type ranked[T any] struct {
	rank, tie int64
	x         T
}

func (a *ranked[T]) less(b *ranked[T]) bool {
	return a.rank < b.rank || a.rank == b.rank && a.tie < b.tie
}

// newHeap returns an empty heap. place returns where an element stores its
// place in this heap: an int that is 0 while the element is not in, and that
// the heap alone writes.
func newHeap[T any](place func(T) *int) heap[T] {
	return heap[T]{place: place}
}

func (h *heap[T]) len() int { return len(h.items) }

// min is the element with the lowest rank, and among these the one with the
// lowest tie. The heap must not be empty.
func (h *heap[T]) min() T { return h.items[0].x }

// update adds x or, if it is in already, gives it another priority.
func (h *heap[T]) update(x T, rank, tie int64) {
	i := *h.place(x) - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, ranked[T]{})
	} else if old := &h.items[i]; old.rank == rank && old.tie == tie {
		return
	}
	h.settle(i, ranked[T]{rank: rank, tie: tie, x: x})
}

// remove removes x, if it is in.
func (h *heap[T]) remove(x T) {
	p := h.place(x)
	i := *p - 1
	if i < 0 {
		return
	}
	*p = 0
	last := len(h.items) - 1
	e := h.items[last]
	h.items[last] = ranked[T]{}
	h.items = h.items[:last]
	if i < last {
		h.settle(i, e)
	}
}

// settle puts e where it belongs on the way up or down from i, which is vacant.
func (h *heap[T]) settle(i int, e ranked[T]) {
	from := i
	for i > 0 && e.less(&h.items[(i-1)/2]) {
		h.put(i, h.items[(i-1)/2])
		i = (i - 1) / 2
	}
	for i >= from {
		c := 2*i + 1
		if c+1 < len(h.items) && h.items[c+1].less(&h.items[c]) {
			c++
		}
		if c >= len(h.items) || !h.items[c].less(&e) {
			break
		}
		h.put(i, h.items[c])
		i = c
	}
	h.put(i, e)
}

func (h *heap[T]) put(i int, e ranked[T]) {
	h.items[i] = e
	*h.place(e.x) = i + 1
}
