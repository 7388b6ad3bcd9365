package sched

// longestFirst is one shared queue from which, of the items of the lowest rank,
// the one with the highest cost goes first, the oldest among equals (Graham's LPT
// rule, 1969): a long task must not start last and keep the other slots waiting.
// Items of unknown cost are given the highest cost there is, so they go first, in
// order of ID. The slot that holds the fewest items is served first.
type longestFirst struct {
	slots
	queue priorityQueue[Item]
}

func (p *longestFirst) Push(it Item) bool {
	*p.queue.put(it.ID, it.Rank, -it.Cost, int64(it.ID)) = it
	return true
}

func (p *longestFirst) Ready() int {
	if p.queue.len() == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *longestFirst) Pop(slot int) (it Item, ok bool) {
	if p.queue.len() == 0 || !p.take(slot) {
		return it, false
	}
	it = p.queue.first().value
	p.queue.remove(it.ID)
	return it, true
}

func (p *longestFirst) Remove(id uint64) bool { return p.queue.remove(id) }

func (p *longestFirst) Len() int { return p.queue.len() }

func (p *longestFirst) Blocks(yield func(Block) bool) {
	if n := p.queue.len(); n > 0 {
		yield(Block{N: n})
	}
}
