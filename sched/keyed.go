package sched

// keyed runs the items of a key one at a time, in order of rank, as far as that is given
// by hand, and then of ID, all on one slot, which slots.slot chooses. A key is blocked while one of its
// items is running or awaited, so its order holds through retries. Meanwhile the
// slot goes on with its other keys, the one whose first item has the lowest rank,
// and among equals the lowest ID, first.
//
// After slots have joined or left, slots.slot chooses anew: for a key with a running
// item once that has ended, for the others before anything else happens. So those
// that were queued while the first slot joined do not all stay there.
//
// It is "round-robin", too, where each item has a key of its own and goes by its number: item i
// belongs to slot (i-1) mod N of the N slots, counted from 0 in ascending order of ID, and waits
// for it even if others are idle. So a retried item goes to the same slot.
type keyed struct {
	slots
	store
	keys    map[uint64]*chain // those with an item
	awaited map[uint64]*chain // by ID of the item
	ready   []queue[*chain]   // by slot, 0 for none: its keys that are not blocked, by rank and ID of their first item
	spare   spares[chain]
	numbers bool // it is "round-robin"
}

// chain is a key with work.
type chain struct {
	order

	key     uint64
	place   uint64
	slot    int // 0 if there was none to choose from
	queue   queue[*entry]
	by      uint64 // the item that blocks it: it is running or awaited; 0 for none
	running bool
}

func newKeyed(numbers bool) *keyed {
	return &keyed{
		slots: newSlots(), numbers: numbers,
		keys: map[uint64]*chain{}, awaited: map[uint64]*chain{}, ready: make([]queue[*chain], 1),
	}
}

// of returns the key of an item, and its place.
func (p *keyed) of(it *Item) (key, place uint64) {
	if p.numbers {
		return it.ID, it.ID - 1
	}
	return it.Key, it.Place
}

// home returns the slot of a place, or 0 if there are no slots.
func (p *keyed) home(place uint64) int {
	if p.numbers && len(p.ids) > 0 {
		return p.ids[place%uint64(len(p.ids))]
	}
	return p.slot(place)
}

// settle moves the keys to where they belong after slots have joined or left.
func (p *keyed) settle() {
	if !p.changed {
		return
	}
	p.changed = false
	for _, c := range p.keys {
		p.refresh(c)
	}
}

// refresh updates slots and heaps after anything about c has changed.
func (p *keyed) refresh(c *chain) {
	if slot := p.home(c.place); !c.running && c.slot != slot {
		p.ready[c.slot].remove(c)
		c.slot = slot
	}
	h := &p.ready[c.slot]
	if c.by == 0 && c.queue.len() > 0 {
		h.update(c, order{c.rank(), int64(c.queue.min().ID)})
		return
	}
	if h.remove(c); c.by == 0 {
		delete(p.keys, c.key)
		p.spare.put(c)
	}
}

func (p *keyed) Push(it Item) bool {
	p.settle()
	key, place := p.of(&it)
	c := p.keys[key]
	if c == nil {
		c = p.spare.take()
		*c = chain{queue: c.queue, key: key, place: place}
		p.keys[key] = c
	}
	if c.by == it.ID {
		delete(p.awaited, it.ID)
		c.by = 0
	}
	priority := int32(0)
	if it.Rank > -HandRank && it.Rank < HandRank { // it is one among keys, which are in order
		priority, it.Rank = int32(it.Rank), 0
	}
	p.insert(&c.queue, &it).note = priority
	p.refresh(c)
	return true
}

// rank returns the rank of the first item of a key.
func (c *chain) rank() int64 {
	e := c.queue.min()
	return e.Rank + int64(e.note)
}

func (p *keyed) Ready() int {
	p.settle()
	return p.emptiest(func(id int) bool { return p.ready[id].len() > 0 })
}

func (p *keyed) Pop(slot int) (it Item, ok bool) {
	p.settle()
	if p.ready[slot].len() == 0 {
		return it, false
	}
	c := p.ready[slot].min()
	rank := c.rank()
	it = p.cut(c.queue.min())
	it.Rank = rank
	c.by, c.running = it.ID, true
	p.refresh(c)
	return it, true
}

func (p *keyed) Done(slot int, it Item, again bool) {
	p.settle()
	p.slots.Done(slot, it, again)
	key, _ := p.of(&it)
	c := p.keys[key]
	if c == nil { // a Dispatcher has given it places by Take
		return
	}
	c.running = false
	if again && !p.numbers {
		p.awaited[it.ID] = c
	} else {
		c.by = 0
	}
	p.refresh(c)
}

func (p *keyed) Choice(it Item) Choice {
	p.settle()
	key, place := p.of(&it)
	slot := p.home(place)
	c := Choice{Key: !p.numbers, Slot: slot}
	if p.hasRoom(slot) {
		c.Free = slot
	}
	if k := p.keys[key]; k != nil && k.by != 0 {
		c.First = k.by
	} else if k != nil && k.queue.len() > 0 {
		c.First = k.queue.min().ID
	}
	return c
}

// Remove unblocks the key if the item was awaited.
func (p *keyed) Remove(id uint64) bool {
	p.settle()
	if c := p.awaited[id]; c != nil {
		delete(p.awaited, id)
		c.by = 0
		p.refresh(c)
		return false
	}
	e := p.find(id)
	if e == nil {
		return false
	}
	key, _ := p.of(&e.Item)
	p.cut(e)
	p.refresh(p.keys[key])
	return true
}

func (p *keyed) Join(s Slot) {
	p.slots.Join(s)
	for len(p.ready) <= s.ID {
		p.ready = append(p.ready, queue[*chain]{})
	}
}

func (p *keyed) Serial() bool { return !p.numbers }
