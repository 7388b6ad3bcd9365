package sched

// leastBusy is one pool: an item is placed with the slot that has the least
// outstanding cost relative to its capacity, but no slot is idle while an item
// waits. When a slot leaves, its queue is dealt to the others. The slot with
// the least cost running is served first.
type leastBusy struct {
	store
	pool pool
}

func newLeastBusy() *leastBusy {
	p := &leastBusy{store: newStore()}
	p.pool = newPool(&p.store)
	return p
}

func (p *leastBusy) Push(it Item) bool {
	p.pool.push(it)
	return true
}

func (p *leastBusy) Ready() int {
	if p.n == 0 || p.pool.idle.len() == 0 {
		return 0
	}
	return p.pool.idle.min().id
}

func (p *leastBusy) Pop(slot int) (Item, bool) {
	if !p.hasRoom(slot) {
		return Item{}, false
	}
	return p.pool.pop(p.stations[slot])
}

func (p *leastBusy) Done(slot int, it Item, _ bool) {
	if st := p.done(slot, it); p.in(slot) {
		p.pool.done(st)
	}
}

func (p *leastBusy) Remove(id uint64) bool {
	i := p.where[id]
	if i != 0 {
		p.pool.remove(i)
	}
	return i != 0
}

func (p *leastBusy) Join(s Slot) { p.pool.join(p.join(s)) }

func (p *leastBusy) Leave(id int) {
	p.slots.Leave(id)
	p.pool.leave(p.stations[id])
}

// Longest is the heaviest queue. What is in it does not wait for that slot
// alone.
func (p *leastBusy) Longest() Block {
	if p.n == 0 {
		return Block{}
	}
	return Block{N: p.n, ID: p.nodes[p.pool.oldest()].ID}
}
