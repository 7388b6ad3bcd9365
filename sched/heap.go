package sched

// Heap is an indexed binary heap: an element knows its place, so that it can
// be given a new priority or taken out in O(log n). An element is in at most
// once. The zero Heap is of no use; NewHeap makes one.
type Heap[T any] struct {
	items []ranked[T]
	place func(T) *int
}

// ranked is an element with its priority, which stands beside it so that
// comparing needs neither a call nor a look at the element.
type ranked[T any] struct {
	rank, tie int64
	x         T
}

func (a *ranked[T]) less(b *ranked[T]) bool {
	return a.rank < b.rank || a.rank == b.rank && a.tie < b.tie
}

// NewHeap returns an empty heap. place is where an element keeps its place in
// this heap: an int that is 0 while it is not in, and that nobody else writes.
func NewHeap[T any](place func(T) *int) Heap[T] {
	return Heap[T]{place: place}
}

// Len is the number of elements.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min is the element with the lowest rank, and among these the one with the
// lowest tie. The heap must not be empty.
func (h *Heap[T]) Min() T { return h.items[0].x }

// Update puts x in, or where it is in already gives it another priority.
func (h *Heap[T]) Update(x T, rank, tie int64) {
	e := ranked[T]{rank: rank, tie: tie, x: x}
	i := *h.place(x) - 1
	if i < 0 {
		h.items = append(h.items, e)
		h.up(len(h.items)-1, e)
		return
	}
	switch old := &h.items[i]; {
	case e.less(old):
		h.up(i, e)
	case old.less(&e):
		h.down(i, e)
	}
}

// Remove takes x out; it does nothing where x is not in.
func (h *Heap[T]) Remove(x T) {
	p := h.place(x)
	i := *p - 1
	if i < 0 {
		return
	}
	*p = 0
	last := len(h.items) - 1
	gone, e := h.items[i], h.items[last]
	h.items[last] = ranked[T]{}
	h.items = h.items[:last]
	switch {
	case i == last:
	case e.less(&gone):
		h.up(i, e)
	default:
		h.down(i, e)
	}
}

func (h *Heap[T]) put(i int, e ranked[T]) {
	h.items[i] = e
	*h.place(e.x) = i + 1
}

// up moves e, which belongs at i or above, to its place.
func (h *Heap[T]) up(i int, e ranked[T]) {
	for i > 0 {
		parent := (i - 1) / 2
		if !e.less(&h.items[parent]) {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, e)
}

// down moves e, which belongs at i or below, to its place.
func (h *Heap[T]) down(i int, e ranked[T]) {
	for {
		c := 2*i + 1
		if c >= len(h.items) {
			break
		}
		if c+1 < len(h.items) && h.items[c+1].less(&h.items[c]) {
			c++
		}
		if !h.items[c].less(&e) {
			break
		}
		h.put(i, h.items[c])
		i = c
	}
	h.put(i, e)
}
