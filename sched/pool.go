package sched

// station is a slot as a pool sees it.
type station struct {
	id      int
	team    *team // nil if the slot is not in
	cap     int64 // of the slot when it joined
	queue   list  // items assigned to it, all of rank 0
	queued  int64 // cost of those
	running int64 // cost of the items it holds

	load, backlog, idle int // positions in the heaps of its pool
}

// rank returns a cost relative to the capacity, for use in a heap; the ID decides
// between equals. tie holds 31 bits of the fraction, enough to compare capacities
// up to 1<<15 exactly.
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

// pool shares items out among its stations. An item is assigned to the station
// with the least outstanding cost, queued and running, relative to its capacity;
// the lowest ID wins among equals. A station with free capacity and an empty
// queue takes the oldest item of the queue with the highest cost, again relative
// to capacity. So no station is idle while an item waits.
//
// While a pool has no station, its items wait in a list apart. Items pushed later
// join that list until it is empty, and the stations take from it in order. So
// the queue of a pool whose only station comes and goes is not dealt anew each
// time.
//
// Only items of rank 0 are assigned to stations. Every station takes those of lower
// ranks first, and those of higher ranks once no others are queued, in order of rank
// and then of push.
type pool struct {
	policy  *byTopic
	load    heap[*station] // all stations, the least outstanding first
	backlog heap[*station] // those with a queue, the heaviest first
	idle    heap[*station] // those with free capacity, the one with the least cost running first
	ahead   list           // items of ranks below 0
	apart   list           // items of rank 0 without a station
	behind  list           // items of ranks above 0
	n       int            // queued items
	held    int            // items that its stations hold
}

// weight returns an item's cost, bounded so that no sum of costs overflows.
func weight(it *Item) int64 { return min(max(it.Cost, 1), 1<<40) }

// refresh updates the heaps after anything about st has changed.
func (p *pool) refresh(st *station) {
	p.requeue(st)
	if p.policy.hasRoom(st.id) {
		rank, tie := st.rank(st.running)
		p.idle.update(st, &st.idle, rank, tie)
	} else {
		p.idle.remove(&st.idle)
	}
}

// requeue updates the heaps after the queue of st has changed.
func (p *pool) requeue(st *station) {
	rank, tie := st.rank(st.queued + st.running)
	p.load.update(st, &st.load, rank, tie)
	if st.queue.n > 0 {
		rank, tie = st.rank(-st.queued)
		p.backlog.update(st, &st.backlog, rank, tie)
	} else {
		p.backlog.remove(&st.backlog)
	}
}

func (p *pool) push(it *Item) {
	p.n++
	if it.Rank != 0 || p.load.len() == 0 || p.apart.n > 0 {
		p.policy.add(p.unassigned(it.Rank), it)
		return
	}
	st := p.load.min()
	i := p.policy.add(&st.queue, it)
	p.policy.nodes[i].owner = int32(st.id)
	st.queued += weight(it)
	p.requeue(st)
}

// pop takes an item for st, which has free capacity.
func (p *pool) pop(st *station) (it Item, ok bool) {
	if p.n == 0 {
		return it, false
	}
	i := st.queue.head
	if i == 0 || p.ahead.n > 0 {
		i = p.oldest()
	}
	it = p.policy.nodes[i].Item
	from := p.cut(i)
	p.policy.take(st.id)
	p.held++
	st.running += weight(&it)
	if from != nil && from != st {
		p.requeue(from)
	}
	p.refresh(st)
	return it, true
}

// unassigned returns the list for the items of a rank that have no station.
func (p *pool) unassigned(rank int64) *list {
	switch {
	case rank < 0:
		return &p.ahead
	case rank > 0:
		return &p.behind
	}
	return &p.apart
}

// oldest returns the node that a station with an empty queue takes: of rank 0, the
// first of the list apart, or else of the heaviest queue. Something must be queued.
func (p *pool) oldest() int32 {
	switch {
	case p.ahead.n > 0:
		return p.ahead.head
	case p.apart.n > 0:
		return p.apart.head
	case p.backlog.len() > 0:
		return p.backlog.min().queue.head
	}
	return p.behind.head
}

// cut removes the queued item of node i. It returns the station the item was
// assigned to, if any, which the caller has to requeue.
func (p *pool) cut(i int32) *station {
	p.n--
	n := &p.policy.nodes[i]
	if n.owner == 0 {
		p.policy.cut(p.unassigned(n.Rank), i)
		return nil
	}
	st := p.policy.stations[n.owner]
	st.queued -= weight(&n.Item)
	p.policy.cut(&st.queue, i)
	return st
}

// remove removes the queued item of node i.
func (p *pool) remove(i int32) {
	if st := p.cut(i); st != nil {
		p.requeue(st)
	}
}

// join makes st one of the pool's stations.
func (p *pool) join(st *station) {
	p.held += p.policy.all[st.id].held
	p.refresh(st)
}

// leave removes st from the pool. Items queued for it stay with the pool.
func (p *pool) leave(st *station) {
	p.held -= p.policy.all[st.id].held
	p.load.remove(&st.load)
	p.backlog.remove(&st.backlog)
	p.idle.remove(&st.idle)
	st.queued = 0
	for st.queue.n > 0 {
		it := *p.policy.first(&st.queue)
		p.policy.cut(&st.queue, st.queue.head)
		p.n--
		p.push(&it)
	}
}
