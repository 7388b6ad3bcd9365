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
	tiers    map[int64]tier // by rank; none is empty
	accounts map[accountID]*account
	order    queue[*account] // by rank, by the round of the first item, then by turn
	turn     int64           // counts items and keys as they are served and added
	spare    spares[account]
}

// tier is what the items of one rank share.
type tier struct {
	round int64 // in which the last item was served; each first item has its cost by this round or later
	keys  int
}

type accountID struct {
	rank int64
	key  uint64
}

// account is a key with items of one rank.
type account struct {
	order

	queue queue[*entry]
	since int64 // the round after which it saves for its first item
	turn  int64
}

func newFair() *fair {
	return &fair{slots: newSlots(), tiers: map[int64]tier{}, accounts: map[accountID]*account{}}
}

func (p *fair) reorder(a *account) {
	first := a.queue.min()
	p.order.update(a, order{first.Rank, a.since + weight(&first.Item), a.turn})
}

func (p *fair) Push(it Item) bool {
	id := accountID{it.Rank, it.Key}
	if a := p.accounts[id]; a != nil {
		p.add(&a.queue, &it)
		return true
	}
	t := p.tiers[it.Rank]
	t.keys++
	p.tiers[it.Rank] = t
	p.turn++
	a := p.spare.take()
	a.since, a.turn = t.round, p.turn
	p.accounts[id] = a
	p.add(&a.queue, &it)
	p.reorder(a)
	return true
}

func (p *fair) Choice(Item) Choice { return Choice{Key: true} }

func (p *fair) peek(int) *entry {
	if a := p.order.min(); a != nil {
		return a.queue.min()
	}
	return nil
}

func (p *fair) pop(e *entry, served bool) Item {
	id := accountID{e.Rank, e.Key}
	a, t := p.accounts[id], p.tiers[e.Rank]
	if served {
		p.turn++
		a.since, a.turn = a.since+weight(&e.Item), p.turn
		t.round = a.since
	}
	it := p.cut(e)
	if a.queue.len() > 0 {
		a.since = max(a.since, t.round-weight(&a.queue.min().Item)) // a dearer item may have been removed
		p.reorder(a)
	} else {
		p.order.remove(a)
		delete(p.accounts, id)
		p.spare.put(a)
		t.keys--
	}
	if p.tiers[id.rank] = t; t.keys == 0 {
		delete(p.tiers, id.rank)
	}
	return it
}
