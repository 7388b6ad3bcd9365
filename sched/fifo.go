package sched

// fifo is one shared queue: any slot with free capacity takes the oldest item of
// the lowest rank. The slot that holds the fewest items is served first or, for
// "least-busy", the one that holds the least cost relative to its capacity.
//
// With a sign, it takes that with the lowest sign * Cost, the one with the lowest ID among equals.
// With sign -1 the longest goes first (Graham's LPT rule, 1969): a long task must not
// start last and keep the other slots waiting. With sign 1 the shortest goes first, which
// makes the mean waiting time the least. Items of unknown cost are given the highest cost
// there is: they go first or last, in order of ID. Either way an item that may be long
// is not taken for a short one.
type fifo struct {
	slots
	queue queue
	sign  int64
}

func (p *fifo) Push(it Item) bool {
	if p.sign == 0 {
		p.add(&p.queue, &it)
	} else {
		p.put(&p.queue, &it, order{it.Rank, p.sign * it.Cost, int64(it.ID)})
	}
	return true
}

func (p *fifo) peek(int) *entry { return p.queue.first() }
