package sched

// fifo is one shared queue: any slot with free capacity takes the oldest item of
// the lowest rank. The slot that holds the fewest items is served first.
type fifo struct {
	slots
	store
	queue queue
}

func newFIFO() *fifo { return &fifo{slots: newSlots()} }

func (p *fifo) Push(it Item) bool {
	p.add(&p.queue, &it)
	return true
}

func (p *fifo) Ready() int {
	if p.Len() == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *fifo) Pop(slot int) (it Item, ok bool) {
	if p.Len() == 0 || !p.take(slot) {
		return it, false
	}
	return p.cut(p.queue.min()), true
}

func (p *fifo) Remove(id uint64) bool { return p.drop(id) }

// leastBusy is fifo, but serves the slot first that runs the least cost relative to its
// capacity, the lowest ID among equals.
type leastBusy struct {
	fifo
	running []int64 // by slot: the cost of what it holds
}

// weight returns an item's cost, bounded so that no sum of costs overflows.
func weight(it *Item) int64 { return min(max(it.Cost, 1), 1<<40) }

func (p *leastBusy) load(slot int) float64 {
	return float64(p.running[slot]) / float64(p.all[slot].Cap)
}

func (p *leastBusy) Ready() (least int) {
	if p.Len() == 0 {
		return 0
	}
	for _, id := range p.ids {
		if p.hasRoom(id) && (least == 0 || p.load(id) < p.load(least)) {
			least = id
		}
	}
	return least
}

func (p *leastBusy) Pop(slot int) (Item, bool) {
	it, ok := p.fifo.Pop(slot)
	if ok {
		p.running[slot] += weight(&it)
	}
	return it, ok
}

func (p *leastBusy) Take(slot int, it Item) {
	p.fifo.Take(slot, it)
	p.running[slot] += weight(&it)
}

func (p *leastBusy) Done(slot int, it Item, again bool) {
	p.fifo.Done(slot, it, again)
	p.running[slot] -= weight(&it)
}

func (p *leastBusy) Join(s Slot) {
	p.fifo.Join(s)
	for len(p.running) <= s.ID {
		p.running = append(p.running, 0)
	}
}

// byCost is one shared queue. Of the items of the lowest rank, it takes that with the
// lowest sign * Cost, the oldest among equals. The slot that holds the fewest items is
// served first.
//
// With sign -1 the longest goes first (Graham's LPT rule, 1969): a long task must not
// start last and keep the other slots waiting. With sign 1 the shortest goes first, which
// makes the mean waiting time the least. Items of unknown cost are given the highest cost
// there is: they go first or last, in order of ID. Either way an item that may be long
// is not taken for a short one.
type byCost struct {
	fifo
	sign int64
}

func (p *byCost) Push(it Item) bool {
	p.put(&p.queue, &it, p.sign*it.Cost, int64(it.ID))
	return true
}
