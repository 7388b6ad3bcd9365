package sched

// fair shares the slots among the keys by cost. Among the items of the lowest rank it is
// deficit round robin (Shreedhar and Varghese, 1995) with a quantum of one: in each
// round, every key with queued items saves one unit, and its first item is served once
// the key has saved its cost. Rounds in which nothing is served are skipped, as in
// self-clocked fair queuing (Golestani, 1994). In one round, the key that was served, or
// got its first item, longest ago goes first.
//
// So the costs served to two keys that both have queued items differ by no more than
// their two largest costs, over any interval. A key saves for its first item only. It is
// forgotten once it has no queued items: when it returns it has neither credit nor debt.
//
// Each rank has its own rounds. The items of a key go in order of rank and then of Push.
// Any slot takes any key; the slot that holds the fewest items is served first.
type fair struct {
	slots
	slab
	tiers    byRank[*tier] // none is empty
	turn     int64         // counts items and keys as they are served and added
	tierPool spares[tier]
	accounts spares[account]
}

// tier holds the items of one rank.
type tier struct {
	round int64 // in which the last item was served; each first item has its cost by this round or later
	keys  map[uint64]*account
	order heap[*account] // by the round of the first item, then by turn
}

// account is a key with items of one rank.
type account struct {
	queue list
	since int64 // the round after which it saves for its first item
	turn  int64
	pos   int // in the order
}

// lastRound is where the rounds of a tier begin anew, so that no sum overflows.
const lastRound = 1 << 62

func newFair() *fair { return &fair{slots: newSlots(), slab: newIndexedSlab()} }

// due returns the round in which the first item of a is served.
func (p *fair) due(a *account) int64 { return a.since + weight(p.first(&a.queue)) }

func (p *fair) reorder(t *tier, a *account) { t.order.update(a, &a.pos, p.due(a), a.turn) }

func (p *fair) Push(it Item) bool {
	at, found := p.tiers.find(it.Rank)
	if !found {
		t := p.tierPool.take()
		if t.keys == nil {
			t.keys = map[uint64]*account{}
		}
		p.tiers.insert(at, it.Rank, t)
	}
	t := p.tiers[at].x
	a := t.keys[it.Key]
	if a != nil {
		p.add(&a.queue, &it)
		return true
	}
	a = p.accounts.take()
	p.turn++
	*a = account{since: t.round, turn: p.turn}
	t.keys[it.Key] = a
	p.add(&a.queue, &it)
	p.reorder(t, a)
	return true
}

func (p *fair) Choice(it Item) Choice {
	c := p.slots.Choice(it)
	c.Key = true
	return c
}

func (p *fair) Ready() int {
	if p.n == 0 {
		return 0
	}
	return p.emptiest()
}

func (p *fair) Pop(slot int) (it Item, ok bool) {
	if p.n == 0 || !p.take(slot) {
		return it, false
	}
	t := p.tiers[0].x
	a := t.order.min()
	t.round = p.due(a)
	p.turn++
	a.since, a.turn = t.round, p.turn
	it = *p.first(&a.queue)
	p.drop(a.queue.head)
	if t.round >= lastRound {
		p.rewind(t)
	}
	return it, true
}

// rewind lets the rounds of a tier begin anew, which changes no order.
func (p *fair) rewind(t *tier) {
	passed := t.round
	t.round = 0
	for _, a := range t.keys {
		a.since -= passed
		p.reorder(t, a)
	}
}

func (p *fair) Remove(id uint64) bool {
	i := p.where[id]
	if i != 0 {
		p.drop(i)
	}
	return i != 0
}

// drop removes the queued item of node i.
func (p *fair) drop(i int32) {
	rank, key := p.nodes[i].Rank, p.nodes[i].Key
	at, _ := p.tiers.find(rank)
	t := p.tiers[at].x
	a := t.keys[key]
	p.cut(&a.queue, i)
	if a.queue.n > 0 {
		a.since = max(a.since, t.round-weight(p.first(&a.queue))) // a dearer item may have been removed
		p.reorder(t, a)
		return
	}
	t.order.remove(&a.pos)
	delete(t.keys, key)
	p.accounts.put(a)
	if len(t.keys) == 0 {
		p.tiers.delete(at)
		p.tierPool.put(t)
	}
}
