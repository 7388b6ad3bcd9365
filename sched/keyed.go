package sched

// Keyed gives all items of a key to one worker, by Jump over the number of
// workers, one at a time and in the order of IDs. A key stays blocked while a
// worker holds one of its items and while one of them is awaited, so the order
// holds through retries; other keys of that worker go on, the one with the
// oldest item first.
//
// On Resize a key without work moves as Jump says: about |M-N|/max(M,N) of
// them. A key with work keeps its worker until all of it is finished; where
// that worker is gone it moves as soon as none of its items is running.
type Keyed struct {
	slots   slots
	keys    map[uint64]*chain // those with an item in
	where   map[uint64]int32  // the node of each queued item
	awaited map[uint64]*chain // by ID
	ready   []Heap[*chain]    // of worker w at w-1: its keys that are not blocked, the oldest item first
	able    bitset            // idle workers with a key that is not blocked
	slab    slab
	unused  []*chain
	n       int
}

// chain is a key with work.
type chain struct {
	key     uint64
	worker  int
	queue   list
	running bool
	awaited uint64 // ID, or 0
	place   int    // in ready
}

var _ Policy = (*Keyed)(nil)

// NewKeyed returns an empty Keyed.
func NewKeyed(workers int) *Keyed {
	p := &Keyed{
		keys:    map[uint64]*chain{},
		where:   map[uint64]int32{},
		awaited: map[uint64]*chain{},
	}
	p.Resize(workers)
	return p
}

// chain is the chain of a key, made where there is none.
func (p *Keyed) chain(key uint64) *chain {
	c := p.keys[key]
	if c != nil {
		return c
	}
	if last := len(p.unused) - 1; last >= 0 {
		c, p.unused = p.unused[last], p.unused[:last]
	} else {
		c = &chain{}
	}
	*c = chain{key: key, worker: Jump(key, p.slots.n) + 1}
	p.keys[key] = c
	return c
}

// refresh brings c where it belongs after anything about it has changed.
func (p *Keyed) refresh(c *chain) {
	blocked := c.running || c.awaited != 0
	if c.worker > p.slots.n && !c.running {
		p.ready[c.worker-1].Remove(c)
		old := c.worker
		c.worker = Jump(c.key, p.slots.n) + 1
		p.enable(old)
	}
	h := &p.ready[c.worker-1]
	if c.queue.n > 0 && !blocked {
		h.Update(c, int64(p.slab.first(&c.queue).ID), 0)
	} else {
		h.Remove(c)
	}
	p.enable(c.worker)
	if c.queue.n == 0 && !blocked {
		delete(p.keys, c.key)
		p.unused = append(p.unused, c)
	}
}

func (p *Keyed) enable(w int) {
	p.able.set(w, p.slots.idle.has(w) && p.ready[w-1].Len() > 0)
}

// Push queues an item for its key's worker.
func (p *Keyed) Push(it Item) {
	c := p.chain(it.Key)
	if c.awaited == it.ID {
		delete(p.awaited, it.ID)
		c.awaited = 0
	}
	p.where[it.ID] = p.slab.insert(&c.queue, it, 0)
	p.n++
	p.refresh(c)
}

// Ready is the lowest idle worker that has a key to go on with, or 0.
func (p *Keyed) Ready() int { return p.able.first() }

// Pop takes the oldest item that is first of its key, among the worker's keys
// that are not blocked, and blocks that key.
func (p *Keyed) Pop(worker int) (Item, bool) {
	if !p.able.has(worker) {
		return Item{}, false
	}
	c := p.ready[worker-1].Min()
	it := p.slab.cut(&c.queue, c.queue.head)
	delete(p.where, it.ID)
	p.n--
	c.running = true
	p.slots.take(worker)
	p.refresh(c)
	return it, true
}

// Done makes the worker idle and the item's key free, unless it is to be
// pushed again.
func (p *Keyed) Done(worker int, it Item, again bool) {
	p.slots.free(worker)
	if worker <= p.slots.n {
		p.enable(worker)
	}
	c := p.keys[it.Key]
	c.running = false
	if again {
		c.awaited = it.ID
		p.awaited[it.ID] = c
	}
	p.refresh(c)
}

// Remove finds the item in O(1). A key that waited for it goes on.
func (p *Keyed) Remove(id uint64) bool {
	if c := p.awaited[id]; c != nil {
		delete(p.awaited, id)
		c.awaited = 0
		p.refresh(c)
		return false
	}
	i := p.where[id]
	if i == 0 {
		return false
	}
	c := p.keys[p.slab.nodes[i].Key]
	p.slab.cut(&c.queue, i)
	delete(p.where, id)
	p.n--
	p.refresh(c)
	return true
}

// Resize sets the number of workers.
func (p *Keyed) Resize(workers int) {
	p.slots.resize(workers)
	for len(p.ready) < p.slots.n {
		p.ready = append(p.ready, NewHeap(func(c *chain) *int { return &c.place }))
	}
	for _, c := range p.keys {
		p.refresh(c)
	}
}

// Len is the number of queued items.
func (p *Keyed) Len() int { return p.n }

// Longest is the longest queue of a key.
func (p *Keyed) Longest() Block {
	var b Block
	for _, c := range p.keys {
		q := &c.queue
		if q.n == 0 || q.n < b.N {
			continue
		}
		if id := p.slab.first(q).ID; q.n > b.N || id < b.ID {
			b = Block{N: q.n, ID: id, Key: c.key, OneKey: true, Worker: c.worker}
		}
	}
	return b
}

// Jump is the bucket of a key among a number of buckets, from 0. When the
// number goes from n to m, only about |m-n|/max(m,n) of all keys get another
// one. It is the algorithm of Lamping and Veach, "A Fast, Minimal Memory,
// Consistent Hash Algorithm", 2014. Fewer than 1 bucket are taken as 1.
func Jump(key uint64, buckets int) int {
	b, j := int64(0), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(b)
}
