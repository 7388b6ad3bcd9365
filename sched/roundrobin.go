package sched

import (
	"cmp"
	"slices"
)

// RoundRobin is deterministic: item i belongs to worker (i-1) mod N + 1 and
// waits for it, however idle the others are; a retried one goes to the same
// worker. On Resize what is queued is dealt anew by the same formula, in the
// order of IDs.
type RoundRobin struct {
	slots  slots
	ready  bitset // idle workers with something in their queue
	queues []list // of worker w at w-1; as many as there are workers
	slab   slab
	n      int
}

var _ Policy = (*RoundRobin)(nil)

// NewRoundRobin returns an empty RoundRobin.
func NewRoundRobin(workers int) *RoundRobin {
	p := &RoundRobin{}
	p.Resize(workers)
	return p
}

func (p *RoundRobin) worker(id uint64) int {
	return int((id-1)%uint64(p.slots.n)) + 1
}

func (p *RoundRobin) refresh(w int) {
	p.ready.set(w, p.slots.idle.has(w) && p.queues[w-1].n > 0)
}

// Push queues an item for its worker.
func (p *RoundRobin) Push(it Item) {
	w := p.worker(it.ID)
	p.slab.add(&p.queues[w-1], it, w)
	p.n++
	p.refresh(w)
}

// Ready is the lowest idle worker that has an item, or 0.
func (p *RoundRobin) Ready() int { return p.ready.first() }

// Pop takes the next of the worker's own items.
func (p *RoundRobin) Pop(worker int) (Item, bool) {
	if !p.ready.has(worker) {
		return Item{}, false
	}
	q := &p.queues[worker-1]
	it := p.slab.cut(q, q.head)
	p.n--
	p.slots.take(worker)
	p.ready.del(worker)
	return it, true
}

// Done makes the worker idle.
func (p *RoundRobin) Done(worker int, _ Item, _ bool) {
	p.slots.free(worker)
	if worker <= p.slots.n {
		p.refresh(worker)
	}
}

// Remove looks for the item in its worker's queue, the oldest first.
func (p *RoundRobin) Remove(id uint64) bool {
	w := p.worker(id)
	q := &p.queues[w-1]
	i := p.slab.find(q, id)
	if i == 0 {
		return false
	}
	p.slab.cut(q, i)
	p.n--
	p.refresh(w)
	return true
}

// Resize sets the number of workers and deals what is queued anew.
func (p *RoundRobin) Resize(workers int) {
	items := make([]Item, 0, p.n)
	for w := range p.queues {
		for q := &p.queues[w]; q.n > 0; {
			items = append(items, p.slab.cut(q, q.head))
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	p.slots.resize(workers)
	p.queues = make([]list, p.slots.n)
	p.ready = bitset{}
	p.n = 0
	for _, it := range items {
		p.Push(it)
	}
}

// Len is the number of queued items.
func (p *RoundRobin) Len() int { return p.n }

// Longest is the longest queue of a worker.
func (p *RoundRobin) Longest() Block {
	var b Block
	for i := range p.queues {
		if q := &p.queues[i]; q.n > b.N {
			b = Block{N: q.n, ID: p.slab.first(q).ID, Worker: i + 1}
		}
	}
	return b
}
