package sched

// grouped is the base of the policies that go by key. The items of a key form a group. The ready
// groups are in order: the first item of the first group goes next.
type grouped struct {
	slots
	groups map[uint64]*group // by ID
	ready  []*queue          // of groups, by slot; a single one serves all slots
	turn   int64             // counts served items, and groups that get their first item

	// groupOf returns the ID of an item's group. orderOf returns the slot of a group that has items,
	// and its order among the ready groups; zeros if the group is not ready.
	groupOf func(*Item) uint64
	orderOf func(*group) (slot int, at order)
}

// group holds the items of a key.
type group struct {
	ready Item // the group in grouped.ready
	id    uint64
	queue queue
	turn  int64 // when it was served last, or got its first item

	blockedBy uint64 // for "keyed": the running or awaited item that blocks the group; 0 for none
	savesFrom int64  // for "fair": the round after which it saves for its first item

	// for "topic"

	held    int // places that its items hold
	workers int // slots that it was listed with; 0 if it is not listed
	quota   int // places that it may hold, if it is listed
}

func newGrouped() grouped {
	return grouped{slots: newSlots(), groups: map[uint64]*group{}, ready: []*queue{{}}}
}

// enter returns the group of an item, which may be new.
func (p *grouped) enter(it *Item) *group {
	id := p.groupOf(it)
	g := p.groups[id]
	if g == nil {
		g = &group{id: id}
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

// push adds an item to its group, behind the others of its rank.
func (p *grouped) push(g *group, it *Item) bool {
	it.group = g
	g.queue.add(it)
	p.refresh(g)
	return true
}

// refresh updates the position of a group after anything about it has changed, and forgets a group
// that is no longer needed.
func (p *grouped) refresh(g *group) {
	slot, at := 0, order{}
	if g.queue.len() > 0 {
		slot, at = p.orderOf(g)
	}
	g.ready.group = g
	g.ready.move(p.ready[slot], at)
	if g.queue.len()+g.held+g.workers == 0 && g.blockedBy == 0 {
		delete(p.groups, g.id)
	}
}

func (p *grouped) peek(slot int) *Item {
	if first := p.ready[min(slot, len(p.ready)-1)].first(); first != nil {
		return first.group.queue.first()
	}
	return nil
}

func (p *grouped) pop(it *Item, served bool) {
	if served {
		p.noteServed(it.group)
	}
	it.leave()
	p.refresh(it.group)
}
