package sched

// fifo is one shared queue: any slot with free capacity takes the oldest item.
// The slot that holds the fewest items is served first.
type fifo struct {
	slots
	queue ring[Item]
}

func (p *fifo) Push(it Item) bool {
	*p.queue.push() = it
	return true
}

func (p *fifo) Ready() int {
	if p.queue.n == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *fifo) Pop(slot int) (it Item, ok bool) {
	if p.queue.n == 0 || !p.take(slot) {
		return it, false
	}
	it = *p.queue.at(0)
	p.queue.drop()
	return it, true
}

// Remove takes O(1) for the oldest item and O(n) for the newest. An index would
// cost more for every item than it saves for the few that are removed.
func (p *fifo) Remove(id uint64) bool {
	for i := range p.queue.n {
		if p.queue.at(i).ID == id {
			p.queue.cut(i)
			return true
		}
	}
	return false
}

func (p *fifo) Len() int { return p.queue.n }

func (p *fifo) Blocks(yield func(Block) bool) {
	if p.queue.n > 0 {
		yield(Block{N: p.queue.n})
	}
}
