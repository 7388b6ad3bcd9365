package sched

// fifo is one shared queue: any slot with free capacity takes the oldest item of the lowest rank.
// The slot with the fewest items is served first or, for "least-busy", the slot with the least cost
// of its items relative to its capacity.
//
// If sign is not 0, the item with the lowest sign * Cost goes first, and among equals the one with
// the lowest ID. With -1 the longest goes first (Graham's LPT rule, 1969): a long task must not
// start last and keep the other slots waiting. With 1 the shortest goes first, which minimizes the
// mean waiting time. Items of unknown cost have the highest cost there is, so they go first or
// last, in order of ID; either way, an item that may be long is not mistaken for a short one.
type fifo struct {
	slots
	queue queue
	sign  int64
}

func (p *fifo) Push(it *Item) bool {
	if p.sign == 0 {
		p.queue.add(it)
	} else {
		it.move(&p.queue, order{it.Rank, p.sign * it.Cost, int64(it.ID)})
	}
	return true
}

func (p *fifo) peek(int) *Item { return p.queue.first() }
