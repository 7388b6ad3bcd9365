package sched

// station is a slot as a pool sees it.
type station struct {
	id      int
	cap     int64 // of the slot when it joined
	queue   list  // items placed with it
	queued  int64 // cost of those
	running int64 // cost of what it holds

	// places in the heaps of its pool
	load, backlog, idle int
}

// rank is a cost relative to the capacity, the ID deciding between equals, as
// rank and tie of a heap. The tie holds 31 bits of the fraction, which are
// enough to compare exactly with capacities up to 1<<15.
func (st *station) rank(cost int64) (rank, tie int64) {
	if st.cap == 1 {
		return cost, int64(st.id)
	}
	rank, rest := cost/st.cap, cost%st.cap
	if rest < 0 {
		rank, rest = rank-1, rest+st.cap
	}
	return rank, rest<<31/st.cap<<32 | int64(st.id)
}

// pool shares items out among its stations. An item is placed with the station
// that has the least outstanding cost, queued and running, relative to its
// capacity; the lowest ID wins among equals. A station with free capacity and an
// empty queue takes the oldest item of the queue with the highest cost, again
// relative to capacity.
//
// While a pool has no station, its items wait in a list apart. What is pushed
// later queues up behind them until the list is empty, and until then the
// stations take from it in order. So the queue of a pool whose only station
// comes and goes is not dealt anew each time.
type pool struct {
	store   *store
	load    heap[*station] // all stations, the least outstanding first
	backlog heap[*station] // those with a queue, the heaviest first
	idle    heap[*station] // those with free capacity, the one with the least cost running first
	apart   list
	n       int // queued items
	held    int // items that its stations hold
}

// store is what the pools of a policy share. A station is in at most one pool.
type store struct {
	slots
	slab                // the owner of a node is the ID of its station, 0 in a list apart
	stations []*station // by slot
}

func newStore() store {
	return store{slots: newSlots(), slab: newIndexedSlab(), stations: make([]*station, 1)}
}

// join adds a slot and returns its station, which is in no pool yet.
func (s *store) join(in Slot) *station {
	s.slots.Join(in)
	for id := len(s.stations); id <= in.ID; id++ {
		s.stations = append(s.stations, &station{id: id})
	}
	st := s.stations[in.ID]
	st.cap = min(int64(s.all[in.ID].Cap), 1<<31)
	return st
}

// done ends an item on a slot. If the slot is in, the pool has to be told.
func (s *store) done(id int, it Item) *station {
	st := s.stations[id]
	s.slots.Done(id, it, false)
	st.running -= weight(it)
	return st
}

func newPool(s *store) pool {
	return pool{
		store:   s,
		load:    newHeap(func(st *station) *int { return &st.load }),
		backlog: newHeap(func(st *station) *int { return &st.backlog }),
		idle:    newHeap(func(st *station) *int { return &st.idle }),
	}
}

// weight is an item's cost, bounded so that no sum of costs overflows.
func weight(it Item) int64 { return min(max(it.Cost, 1), 1<<40) }

// refresh puts st where it belongs after anything about it has changed.
func (p *pool) refresh(st *station) {
	p.requeue(st)
	if p.store.hasRoom(st.id) {
		rank, tie := st.rank(st.running)
		p.idle.update(st, rank, tie)
	} else if st.idle != 0 {
		p.idle.remove(st)
	}
}

// requeue puts st where it belongs after its queue has changed.
func (p *pool) requeue(st *station) {
	rank, tie := st.rank(st.queued + st.running)
	p.load.update(st, rank, tie)
	if st.queue.n > 0 {
		rank, tie = st.rank(-st.queued)
		p.backlog.update(st, rank, tie)
	} else if st.backlog != 0 {
		p.backlog.remove(st)
	}
}

func (p *pool) push(it Item) {
	p.n++
	if p.load.len() == 0 || p.apart.n > 0 {
		p.store.add(&p.apart, it, 0)
		return
	}
	st := p.load.min()
	p.store.add(&st.queue, it, st.id)
	st.queued += weight(it)
	p.requeue(st)
}

// pop takes an item for st, which has free capacity.
func (p *pool) pop(st *station) (Item, bool) {
	if p.n == 0 {
		return Item{}, false
	}
	i := st.queue.head
	if i == 0 {
		i = p.oldest()
	}
	it, from := p.cut(i)
	p.store.take(st.id)
	p.held++
	st.running += weight(it)
	if from != nil && from != st {
		p.requeue(from)
	}
	p.refresh(st)
	return it, true
}

// oldest is the first node of the heaviest queue, or of apart. Something must be
// queued.
func (p *pool) oldest() int32 {
	if p.apart.n > 0 {
		return p.apart.head
	}
	return p.backlog.min().queue.head
}

// cut removes the queued item of node i. It returns the station that it was
// placed with, if any, which is to be refreshed.
func (p *pool) cut(i int32) (Item, *station) {
	p.n--
	owner := p.store.nodes[i].owner
	if owner == 0 {
		return p.store.cut(&p.apart, i), nil
	}
	st := p.store.stations[owner]
	it := p.store.cut(&st.queue, i)
	st.queued -= weight(it)
	return it, st
}

// remove removes the queued item of node i.
func (p *pool) remove(i int32) {
	if _, st := p.cut(i); st != nil {
		p.requeue(st)
	}
}

// done notes that st, one of the pool's, has ended an item.
func (p *pool) done(st *station) {
	p.held--
	p.refresh(st)
}

// join makes st one of the pool's stations.
func (p *pool) join(st *station) {
	p.held += p.store.all[st.id].held
	p.refresh(st)
}

// leave removes st from the pool; what is queued for it stays with the pool.
func (p *pool) leave(st *station) {
	p.held -= p.store.all[st.id].held
	p.load.remove(st)
	p.backlog.remove(st)
	p.idle.remove(st)
	st.queued = 0
	for st.queue.n > 0 {
		p.n--
		p.push(p.store.cut(&st.queue, st.queue.head))
	}
}
