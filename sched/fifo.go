package sched

import "sort"

// fifo is one shared queue: any slot with free capacity takes the oldest item of
// the lowest rank. The slot that holds the fewest items is served first.
type fifo struct {
	slots
	queue  ring[Item] // of rank 0
	slab              // of the other ranks
	others list
}

func newFIFO() *fifo { return &fifo{slots: newSlots(), slab: newIndexedSlab()} }

func (p *fifo) Push(it Item) bool {
	if it.Rank == 0 {
		*p.queue.push() = it
	} else {
		p.add(&p.others, &it)
	}
	return true
}

func (p *fifo) Ready() int {
	if p.Len() == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *fifo) Pop(slot int) (it Item, ok bool) {
	switch {
	case p.Len() == 0 || !p.take(slot):
		return it, false
	case p.others.n > 0 && (p.queue.n == 0 || p.first(&p.others).Rank < 0):
		it = *p.first(&p.others)
		p.cut(&p.others, p.others.head)
	default:
		it = *p.queue.at(0)
		p.queue.drop()
	}
	return it, true
}

// Remove takes O(1) for the oldest and for the newest item of rank 0, and O(n) for one in the
// middle. An index would cost more for every item than it saves for the few that are removed.
func (p *fifo) Remove(id uint64) bool {
	if i := p.where[id]; i != 0 {
		p.cut(&p.others, i)
		return true
	}
	i := p.find(id)
	found := i < p.queue.n
	if found {
		p.queue.cut(i)
	}
	return found
}

// find returns the index in the ring of an item, or one past the end. Most items are there in
// order of ID, so it tries a binary search first.
func (p *fifo) find(id uint64) int {
	q := &p.queue
	i := sort.Search(q.n, func(i int) bool { return q.at(i).ID >= id })
	if i < q.n && q.at(i).ID == id {
		return i
	}
	for i = 0; i < q.n && q.at(i).ID != id; i++ {
	}
	return i
}

func (p *fifo) Len() int { return p.queue.n + p.others.n }

func (p *fifo) Blocks(yield func(Block) bool) {
	if n := p.Len(); n > 0 {
		yield(Block{N: n})
	}
}
