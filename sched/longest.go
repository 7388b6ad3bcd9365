package sched

// LongestFirst is one shared queue in which the item with the highest cost goes
// first, the oldest among equals: what takes longest is not left for the end,
// when the other workers would wait for it (Graham's LPT rule, 1969). Where
// nothing is known of an item its user gives it the highest cost there is, and
// such items go first, in their order. The lowest idle worker is served first.
type LongestFirst struct {
	slots slots
	queue Heap[*waiter]
	where map[uint64]*waiter
	spare []*waiter
}

// waiter is a queued item.
type waiter struct {
	it    Item
	place int
}

var _ Policy = (*LongestFirst)(nil)

// NewLongestFirst returns an empty LongestFirst.
func NewLongestFirst(workers int) *LongestFirst {
	p := &LongestFirst{
		queue: NewHeap(func(w *waiter) *int { return &w.place }),
		where: map[uint64]*waiter{},
	}
	p.Resize(workers)
	return p
}

// Push queues an item behind those that cost as much or more.
func (p *LongestFirst) Push(it Item) {
	w := new(waiter)
	if n := len(p.spare); n > 0 {
		w, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	w.it = it
	p.where[it.ID] = w
	p.queue.Update(w, -it.Cost, int64(it.ID))
}

// Ready is the lowest idle worker if anything is queued, else 0.
func (p *LongestFirst) Ready() int {
	if p.queue.Len() == 0 {
		return 0
	}
	return p.slots.idle.first()
}

// Pop takes the item with the highest cost.
func (p *LongestFirst) Pop(worker int) (Item, bool) {
	if p.queue.Len() == 0 || !p.slots.idle.has(worker) {
		return Item{}, false
	}
	p.slots.take(worker)
	w := p.queue.Min()
	it := w.it
	p.drop(w)
	return it, true
}

// Done makes the worker idle.
func (p *LongestFirst) Done(worker int, _ Item, _ bool) { p.slots.free(worker) }

// Remove takes the item out in O(log n).
func (p *LongestFirst) Remove(id uint64) bool {
	w := p.where[id]
	if w != nil {
		p.drop(w)
	}
	return w != nil
}

func (p *LongestFirst) drop(w *waiter) {
	p.queue.Remove(w)
	delete(p.where, w.it.ID)
	p.spare = append(p.spare, w)
}

// Resize sets the number of workers.
func (p *LongestFirst) Resize(workers int) { p.slots.resize(workers) }

// Len is the number of queued items.
func (p *LongestFirst) Len() int { return p.queue.Len() }

// Longest is the only queue.
func (p *LongestFirst) Longest() Block {
	if p.queue.Len() == 0 {
		return Block{}
	}
	return Block{N: p.queue.Len(), ID: p.queue.Min().it.ID}
}
