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
// It is "round-robin", too, where all items of a slot have one key, which is never blocked: item i
// belongs to slot (i-1) mod N of the N slots, counted from 0 in ascending order of ID, and waits
// for it even if others are idle. So a retried item goes to the same slot.
type keyed struct {
	slots
	keys    map[uint64]*chain // those with an item
	ready   []queue[*chain]   // by slot, 0 for none: its keys that are not blocked, by rank and ID of their first item
	spare   spares[chain]
	numbers bool // it is "round-robin"
}

// chain is a key with work.
type chain struct {
	order

	key   uint64
	place uint64
	slot  int // where it was ready last; 0 if there was none to choose from
	queue queue[*entry]
	by    uint64 // the item that blocks it: it is running or awaited; 0 for none
}

func newKeyed(numbers bool) *keyed {
	return &keyed{slots: newSlots(), numbers: numbers, keys: map[uint64]*chain{}, ready: make([]queue[*chain], 1)}
}

// of returns the key of an item, which is its slot in "round-robin".
func (p *keyed) of(it *Item) uint64 {
	switch {
	case !p.numbers:
		return it.Key
	case len(p.ids) == 0:
		return 0
	}
	return uint64(p.ids[(it.ID-1)%uint64(len(p.ids))])
}

// home returns the slot of a key, or 0 if there are no slots.
func (p *keyed) home(key, place uint64) int {
	if p.numbers {
		return int(key)
	}
	return p.slot(place)
}

// settle moves the keys, and in "round-robin" the items, to where they belong after slots have
// joined or left.
func (p *keyed) settle() {
	var dealt []Item
	for _, c := range p.keys {
		for p.numbers && c.queue.len() > 0 {
			dealt = append(dealt, p.cut(c.queue.min()))
		}
		p.refresh(c)
	}
	for _, it := range dealt {
		p.Push(it)
	}
}

// refresh updates slots and queues after anything about c has changed.
func (p *keyed) refresh(c *chain) {
	if slot := p.home(c.key, c.place); c.by == 0 && c.slot != slot {
		p.ready[c.slot].remove(c)
		c.slot = slot
	}
	q := &p.ready[c.slot]
	if c.by == 0 && c.queue.len() > 0 {
		first := c.queue.min()
		q.update(c, order{first.Rank, int64(first.ID)})
		return
	}
	if q.remove(c); c.by == 0 {
		delete(p.keys, c.key)
		p.spare.put(c)
	}
}

func (p *keyed) Push(it Item) bool {
	key := p.of(&it)
	c := p.keys[key]
	if c == nil {
		c = p.spare.take()
		*c = chain{queue: c.queue, key: key, place: it.Place}
		p.keys[key] = c
	}
	if c.by == it.ID {
		c.by = 0
	}
	at := order{it.Rank, int64(it.ID)}
	if !p.numbers && it.Rank > -HandRank && it.Rank < HandRank { // it is one among keys, which are in order
		at[0] = 0
	}
	p.put(&c.queue, &it, at)
	p.refresh(c)
	return true
}

func (p *keyed) peek(slot int) *entry {
	if c := p.ready[slot].min(); c != nil {
		return c.queue.min()
	}
	return nil
}

func (p *keyed) pop(e *entry, served bool) Item {
	c := p.keys[p.of(&e.Item)]
	it := p.cut(e)
	if served && !p.numbers {
		c.by = it.ID
	}
	p.refresh(c)
	return it
}

func (p *keyed) Done(slot int, it Item, again bool) {
	if p.slots.Done(slot, it, again); !again {
		p.release(it)
	}
}

func (p *keyed) release(it Item) {
	if c := p.keys[it.Key]; c != nil && c.by == it.ID {
		c.by = 0
		p.refresh(c)
	}
}

func (p *keyed) fits(it *Item, slot int) bool {
	return p.home(p.of(it), it.Place) == slot
}

func (p *keyed) Choice(it Item) Choice {
	key := p.of(&it)
	c := Choice{Key: !p.numbers, Slot: p.home(key, it.Place)}
	if k := p.keys[key]; k != nil && k.by != 0 {
		c.First = k.by
	} else if k != nil && !p.numbers {
		c.First = k.queue.min().ID
	}
	return c
}

func (p *keyed) Join(s Slot) {
	p.slots.Join(s)
	for len(p.ready) <= s.ID {
		p.ready = append(p.ready, queue[*chain]{})
	}
}

func (p *keyed) Serial() bool { return !p.numbers }
