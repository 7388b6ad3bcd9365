package sched

// grouped is the base of the policies that go by key. Each item is in a group, as are others of its
// key; groups that are ready are in order, and the first item of the first one is next.
type grouped struct {
	slots
	groups map[uint64]*group // those with items, and others that a policy knows
	ready  []queue           // by slot or, if there is but one, for all slots
	turn   int64             // counts items that were served, and groups as they get their first item
	spare  freeList[group]

	// groupOf returns the group of an item, and place the slot and the order, in three numbers, of a group
	// with items among those that are ready; zeros if it is not.
	groupOf func(Item) uint64
	orderOf func(*group) (slot int, a, b, c int64)
}

// group is what has the items of a key.
type group struct {
	ready entry // in a queue of those that are
	id    uint64
	queue queue
	slot  int   // where it is ready
	turn  int64 // when it was served, or got its first item

	stableKey uint64 // for "keyed": Item.Place
	blockedBy uint64 // the same: the item that blocks it, as it is running or awaited; 0 for none
	savesFrom int64  // for "fair": the round after which it saves for its first item

	// for "topic"

	held    int // places
	workers int // the slots that it is listed with; 0 if it is not
	quota   int // the places it may have, if it is listed
}

func newGrouped() grouped {
	return grouped{slots: newSlots(), groups: map[uint64]*group{}, ready: make([]queue, 1)}
}

// enter returns the group of an item, which it makes if there is none.
func (p *grouped) enter(it *Item) *group {
	id := p.groupOf(*it)
	g := p.groups[id]
	if g == nil {
		g = p.spare.get()
		*g = group{queue: g.queue, id: id, stableKey: it.StableKey}
		p.groups[id] = g
	}
	if g.queue.len() == 0 {
		p.noteServed(g)
	}
	return g
}

func (p *grouped) noteServed(g *group) {
	p.turn++
	g.turn = p.turn
}

// push queues an item in its group, behind those of its rank.
func (p *grouped) push(g *group, it *Item) bool {
	p.add(&g.queue, it).group = g
	p.refresh(g)
	return true
}

// refresh updates what is known of a group after anything about it has changed.
func (p *grouped) refresh(g *group) {
	slot, at := 0, order{}
	if g.queue.len() > 0 {
		slot, at[0], at[1], at[2] = p.orderOf(g)
	}
	if slot != g.slot {
		p.ready[g.slot].remove(&g.ready)
		g.slot = slot
	}
	g.ready.group = g
	p.ready[slot].update(&g.ready, at)
	if g.queue.len()+g.held+g.workers == 0 && g.blockedBy == 0 {
		delete(p.groups, g.id)
		p.spare.put(g)
	}
}

func (p *grouped) peek(slot int) *entry {
	if e := p.ready[min(slot, len(p.ready)-1)].first(); e != nil {
		return e.group.queue.first()
	}
	return nil
}

func (p *grouped) pop(e *entry, served bool) Item {
	g := e.group
	if served {
		p.noteServed(g)
	}
	it := p.remove(e)
	p.refresh(g)
	return it
}
