package sched

// station is a worker as a pool sees it.
type station struct {
	worker  int
	queue   list  // what waits for it
	queued  int64 // cost of that
	running int64 // cost of what it holds; 0 while it is idle

	// places in the heaps of the pool that it is in
	load, backlog, idle int
}

// pool deals items among its stations: an item goes to the station with the
// least outstanding cost, queued and running, the lowest number among equals;
// an idle station with nothing in its own queue takes the oldest of the queue
// with the highest cost.
//
// While it has no station at all its items wait apart, and what comes later
// queues up behind them until they are gone: stations take them in order, and
// their own queues are empty as long. So a pool whose only station comes and
// goes need not deal its whole queue anew each time.
type pool struct {
	store   *store
	load    Heap[*station] // all stations, the least outstanding first
	backlog Heap[*station] // those with a queue, the heaviest first
	idle    Heap[*station] // the idle ones, the lowest number first
	apart   list
	n       int // queued items
}

// store is what pools of one policy share. A station is in one pool at most.
type store struct {
	slab     slab             // a node's owner is its station's worker, 0 for one apart
	where    map[uint64]int32 // the node of each queued item
	stations []*station       // of worker w at w-1
}

// resize sees to it that there are n stations at least.
func (s *store) resize(n int) {
	for len(s.stations) < n {
		s.stations = append(s.stations, &station{worker: len(s.stations) + 1})
	}
}

func newPool(s *store) pool {
	return pool{
		store:   s,
		load:    NewHeap(func(st *station) *int { return &st.load }),
		backlog: NewHeap(func(st *station) *int { return &st.backlog }),
		idle:    NewHeap(func(st *station) *int { return &st.idle }),
	}
}

// weight is an item's cost, kept where no sum of costs can overflow.
func weight(it Item) int64 { return min(max(it.Cost, 1), 1<<40) }

// reload puts st where it belongs in load.
func (p *pool) reload(st *station) {
	p.load.Update(st, st.queued+st.running, int64(st.worker))
}

// requeue puts st where it belongs in load and backlog.
func (p *pool) requeue(st *station) {
	p.reload(st)
	if st.queue.n > 0 {
		p.backlog.Update(st, -st.queued, int64(st.worker))
	} else {
		p.backlog.Remove(st)
	}
}

func (p *pool) push(it Item) {
	p.n++
	if p.load.Len() == 0 || p.apart.n > 0 {
		p.store.where[it.ID] = p.store.slab.add(&p.apart, it, 0)
		return
	}
	st := p.load.Min()
	p.store.where[it.ID] = p.store.slab.add(&st.queue, it, st.worker)
	st.queued += weight(it)
	p.requeue(st)
}

// pop takes an item for st, which is idle.
func (p *pool) pop(st *station) (Item, bool) {
	if p.apart.n > 0 {
		it := p.take(&p.apart, p.apart.head)
		p.hold(st, it)
		return it, true
	}
	from := st
	if from.queue.n == 0 {
		if p.backlog.Len() == 0 {
			return Item{}, false
		}
		from = p.backlog.Min()
	}
	it := p.take(&from.queue, from.queue.head)
	from.queued -= weight(it)
	p.requeue(from)
	p.hold(st, it)
	return it, true
}

// take cuts the queued item of node i out of l.
func (p *pool) take(l *list, i int32) Item {
	it := p.store.slab.cut(l, i)
	delete(p.store.where, it.ID)
	p.n--
	return it
}

// hold makes st busy with it.
func (p *pool) hold(st *station, it Item) {
	st.running = weight(it)
	p.reload(st)
	p.idle.Remove(st)
}

// done makes st idle.
func (p *pool) done(st *station) {
	st.running = 0
	p.reload(st)
	p.idle.Update(st, int64(st.worker), 0)
}

// remove takes out the queued item of node i.
func (p *pool) remove(i int32) {
	w := p.store.slab.nodes[i].owner
	if w == 0 {
		p.take(&p.apart, i)
		return
	}
	st := p.store.stations[w-1]
	st.queued -= weight(p.take(&st.queue, i))
	p.requeue(st)
}

// join makes st one of the pool's.
func (p *pool) join(st *station) {
	p.reload(st)
	if st.running == 0 {
		p.idle.Update(st, int64(st.worker), 0)
	}
}

// leave takes st out of the pool; what is queued for it stays with the pool.
func (p *pool) leave(st *station) {
	p.load.Remove(st)
	p.backlog.Remove(st)
	p.idle.Remove(st)
	st.queued = 0
	for st.queue.n > 0 {
		p.push(p.take(&st.queue, st.queue.head))
	}
}
