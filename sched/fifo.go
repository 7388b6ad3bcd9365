package sched

// FIFO is one shared queue: any idle worker takes the oldest item, and none is
// idle while an item waits. The lowest idle worker is served first.
type FIFO struct {
	slots slots
	queue ring[Item]
}

var _ Policy = (*FIFO)(nil)

// NewFIFO returns an empty FIFO.
func NewFIFO(workers int) *FIFO {
	p := &FIFO{}
	p.Resize(workers)
	return p
}

// Push queues an item behind all others.
func (p *FIFO) Push(it Item) { p.queue.push(it) }

// Ready is the lowest idle worker if anything is queued, else 0.
func (p *FIFO) Ready() int {
	if p.queue.n == 0 {
		return 0
	}
	return p.slots.idle.first()
}

// Pop takes the oldest item.
func (p *FIFO) Pop(worker int) (Item, bool) {
	if p.queue.n == 0 || !p.slots.idle.has(worker) {
		return Item{}, false
	}
	p.slots.take(worker)
	return p.queue.pop(), true
}

// Done makes the worker idle.
func (p *FIFO) Done(worker int, _ Item, _ bool) { p.slots.free(worker) }

// Remove looks for the item from the oldest on, so it is O(1) for the oldest
// and O(n) for the newest: an index would cost every task what a few cancelled
// ones gain.
func (p *FIFO) Remove(id uint64) bool {
	for i := range p.queue.n {
		if p.queue.at(i).ID == id {
			p.queue.cut(i)
			return true
		}
	}
	return false
}

// Resize sets the number of workers.
func (p *FIFO) Resize(workers int) { p.slots.resize(workers) }

// Len is the number of queued items.
func (p *FIFO) Len() int { return p.queue.n }

// Longest is the only queue.
func (p *FIFO) Longest() Block {
	if p.queue.n == 0 {
		return Block{}
	}
	return Block{N: p.queue.n, ID: p.queue.at(0).ID}
}

// ring is a queue in a circular buffer that doubles when it is full. The zero
// ring is empty.
type ring[T any] struct {
	buf  []T // its length is a power of two, or 0
	head int // where the oldest is
	n    int
}

func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *ring[T]) push(x T) {
	if r.n == len(r.buf) {
		buf := make([]T, max(16, 2*r.n))
		for i := range r.n {
			buf[i] = *r.at(i)
		}
		r.buf, r.head = buf, 0
	}
	r.n++
	*r.at(r.n - 1) = x
}

func (r *ring[T]) pop() T {
	var zero T
	x := *r.at(0)
	*r.at(0) = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return x
}

// cut removes element i; those before it move up.
func (r *ring[T]) cut(i int) {
	for ; i > 0; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	r.pop()
}
