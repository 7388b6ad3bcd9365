package sched

// keyed runs the items of a key one at a time, all in one slot, which slotFor chooses. Within a
// key, items go in order of ID, unless ranks were given by hand; priorities only count between
// keys. A running or awaited item blocks its key, so the order holds through retries. Meanwhile the
// slot serves its other keys: first the key whose first item has the lowest rank, and among equals
// the lowest ID.
//
// After slots have joined or left, slotFor chooses again: for a blocked key once it is free, and for
// all other keys at once. So items that were queued when the first slot joined
// do not all stay there.
//
// As "round-robin", all items of a slot have one key, which is never blocked: of N slots in
// ascending order of ID, counted from 0, number (i-1) mod N runs item i, which waits for it even if
// others are idle. So a retried item returns to the same slot.
type keyed struct {
	grouped
	roundRobin bool
}

func newKeyed(roundRobin bool) *keyed {
	p := &keyed{grouped: newGrouped(), roundRobin: roundRobin}
	p.groupOf, p.orderOf = p.key, p.firstOrder
	return p
}

// key returns the key of an item; in "round-robin", the ID of its slot.
func (p *keyed) key(it *Item) uint64 {
	switch {
	case !p.roundRobin:
		return it.Key
	case len(p.ids) == 0:
		return 0
	}
	return uint64(p.ids[(it.ID-1)%uint64(len(p.ids))])
}

// home returns the slot of a key, or 0 if there are no slots.
func (p *keyed) home(key, stableKey uint64) int {
	if p.roundRobin {
		return int(key)
	}
	return p.slotFor(stableKey)
}

// firstOrder returns the slot of a key, and the order of its first item; zeros if it is blocked.
func (p *keyed) firstOrder(g *group) (slot int, at order) {
	if g.blockedBy != 0 {
		return 0, at
	}
	first := g.queue.first()
	return p.home(g.id, first.StableKey), order{first.Rank, int64(first.ID)}
}

// settle moves the keys and, in "round-robin", the items to the slots where they now belong.
func (p *keyed) settle() {
	var dealt []*Item
	for _, g := range p.groups {
		for p.roundRobin && g.queue.len() > 0 {
			dealt = append(dealt, g.queue.first())
			g.queue.first().leave()
		}
		p.refresh(g)
	}
	for _, it := range dealt {
		p.Push(it)
	}
}

func (p *keyed) Push(it *Item) bool {
	g := p.enter(it)
	if g.blockedBy == it.ID {
		g.blockedBy = 0
	}
	at := order{it.Rank, int64(it.ID)}
	if !p.roundRobin && it.Rank > -ManualRank && it.Rank < ManualRank { // a priority does not count within a key
		at[0] = 0
	}
	it.group = g
	it.move(&g.queue, at)
	p.refresh(g)
	return true
}

func (p *keyed) pop(it *Item, served bool) {
	if served && !p.roundRobin {
		it.group.blockedBy = it.ID
	}
	p.grouped.pop(it, served)
}

func (p *keyed) Done(slot int, it *Item, again bool) {
	if p.slots.Done(slot, it, again); !again {
		p.release(it)
	}
}

func (p *keyed) release(it *Item) {
	if g := p.groups[it.Key]; g != nil && g.blockedBy == it.ID {
		g.blockedBy = 0
		p.refresh(g)
	}
}

func (p *keyed) fits(it *Item, slot int) bool {
	return p.home(p.key(it), it.StableKey) == slot
}

func (p *keyed) Choice(it *Item) Choice {
	id := p.key(it)
	c := Choice{Key: !p.roundRobin, Slot: p.home(id, it.StableKey)}
	if g := p.groups[id]; g != nil && g.blockedBy != 0 {
		c.First = g.blockedBy
	} else if g != nil && !p.roundRobin {
		c.First = g.queue.first().ID
	}
	return c
}

func (p *keyed) Join(s Slot) {
	p.slots.Join(s)
	for len(p.ready) <= s.ID {
		p.ready = append(p.ready, &queue{})
	}
}

func (p *keyed) Serial() bool { return !p.roundRobin }
