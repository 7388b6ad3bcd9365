package sched

// LeastBusy gives an item to the worker with the least outstanding cost,
// queued and running counted, the lowest number among equals. An idle worker
// with nothing queued for it takes over the oldest item of the worker whose
// queue is heaviest, so none is idle while an item waits. On Resize the queues
// of the workers that go are dealt to those that stay.
type LeastBusy struct {
	pool  pool
	store store
	n     int // workers
}

var _ Policy = (*LeastBusy)(nil)

// NewLeastBusy returns an empty LeastBusy.
func NewLeastBusy(workers int) *LeastBusy {
	p := &LeastBusy{store: store{where: map[uint64]int32{}}}
	p.pool = newPool(&p.store)
	p.Resize(workers)
	return p
}

// Push queues an item for the least busy worker.
func (p *LeastBusy) Push(it Item) { p.pool.push(it) }

// Ready is the lowest idle worker if anything is queued, else 0.
func (p *LeastBusy) Ready() int {
	if p.pool.n == 0 || p.pool.idle.Len() == 0 {
		return 0
	}
	return p.pool.idle.Min().worker
}

// Pop takes the next item of the worker's queue, else one from the heaviest.
func (p *LeastBusy) Pop(worker int) (Item, bool) {
	if worker < 1 || worker > p.n {
		return Item{}, false
	}
	st := p.store.stations[worker-1]
	if st.running != 0 {
		return Item{}, false
	}
	return p.pool.pop(st)
}

// Done takes the item's cost off the worker, which is idle then.
func (p *LeastBusy) Done(worker int, _ Item, _ bool) {
	st := p.store.stations[worker-1]
	if worker > p.n {
		st.running = 0
		return
	}
	p.pool.done(st)
}

// Remove finds the item in O(1) and takes it out in O(log N).
func (p *LeastBusy) Remove(id uint64) bool {
	i := p.store.where[id]
	if i != 0 {
		p.pool.remove(i)
	}
	return i != 0
}

// Resize sets the number of workers.
func (p *LeastBusy) Resize(workers int) {
	workers = max(workers, 1)
	p.store.resize(workers)
	for w := p.n; w < workers; w++ {
		p.pool.join(p.store.stations[w])
	}
	for w := p.n; w > workers; w-- {
		p.pool.leave(p.store.stations[w-1])
	}
	p.n = workers
}

// Len is the number of queued items.
func (p *LeastBusy) Len() int { return p.pool.n }

// Longest is the queue with the highest cost. What is in it does not wait for
// that worker alone.
func (p *LeastBusy) Longest() Block {
	if p.pool.n == 0 {
		return Block{}
	}
	q := &p.pool.backlog.Min().queue
	return Block{N: p.pool.n, ID: p.store.slab.first(q).ID}
}
