package sched

// heap is an indexed binary heap. Each element stores its position in the heap,
// so it can be removed or given a new priority in O(log n). The zero heap is
// empty.
type heap[T any] struct{ items []ranked[T] }

// order is the priority of an element: the lowest first number goes first, and among equals the
// lowest second one, and then third one.
type order [3]int64

func (a *order) less(b *order) bool {
	if a[0] != b[0] {
		return a[0] < b[0]
	}
	return a[1] < b[1] || a[1] == b[1] && a[2] < b[2]
}

// ranked is an element with its priority. The priority is stored here, so a
// comparison does not have to load the element.
type ranked[T any] struct {
	order
	x   T
	pos *int // one more than the index in items
}

func (h *heap[T]) len() int { return len(h.items) }

// min returns the element that goes first. The heap must not be empty.
func (h *heap[T]) min() T { return h.items[0].x }

// update adds x or, if it is in already, gives it another priority. pos points
// to x's position in this heap, which is 0 while x is not in. Only the heap
// writes it.
func (h *heap[T]) update(x T, pos *int, o order) {
	i := *pos - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, ranked[T]{})
	} else if h.items[i].order == o {
		return
	}
	h.sift(i, ranked[T]{o, x, pos})
}

// remove removes the element with this position, if it is in.
func (h *heap[T]) remove(pos *int) {
	i := *pos - 1
	if i < 0 {
		return
	}
	*pos = 0
	last := len(h.items) - 1
	e := h.items[last]
	h.items[last] = ranked[T]{}
	h.items = h.items[:last]
	if i < last {
		h.sift(i, e)
	}
}

// sift moves e up or down from index i, which is vacant.
func (h *heap[T]) sift(i int, e ranked[T]) {
	from := i
	for i > 0 && e.less(&h.items[(i-1)/2].order) {
		h.put(i, h.items[(i-1)/2])
		i = (i - 1) / 2
	}
	for i >= from {
		c := 2*i + 1
		if c+1 < len(h.items) && h.items[c+1].less(&h.items[c].order) {
			c++
		}
		if c >= len(h.items) || !h.items[c].less(&e.order) {
			break
		}
		h.put(i, h.items[c])
		i = c
	}
	h.put(i, e)
}

func (h *heap[T]) put(i int, e ranked[T]) {
	h.items[i] = e
	*e.pos = i + 1
}
