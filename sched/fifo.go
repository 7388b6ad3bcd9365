package sched

// fifo is one shared queue: any slot with free capacity takes the oldest item of
// the lowest rank. The slot that holds the fewest items is served first.
type fifo struct {
	slots
	slab
	queue list
}

func (p *fifo) Push(it Item) bool {
	p.add(&p.queue, &it)
	return true
}

func (p *fifo) Ready() int {
	if p.n == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *fifo) Pop(slot int) (it Item, ok bool) {
	if p.n == 0 || !p.take(slot) {
		return it, false
	}
	it = *p.first(&p.queue)
	p.cut(&p.queue, p.queue.head)
	return it, true
}

func (p *fifo) Remove(id uint64) bool { return p.drop(&p.queue, id) }

func (p *fifo) Blocks(yield func(Block) bool) {
	if p.n > 0 {
		yield(Block{N: p.n})
	}
}
