package sched

// fair shares the slots among the keys by cost. Among the items of the lowest rank it is deficit
// round robin (Shreedhar and Varghese, 1995) with a quantum of one: in each round every key with
// queued items saves one unit, and its first item is served once the key has saved its cost. Rounds
// in which nothing is served are skipped, as in self-clocked fair queuing (Golestani, 1994). Within
// a round, the key that was served, or got its first item, longest ago goes first.
//
// So if two keys both have queued items, the costs served to them differ by no more than their two
// largest costs, over any interval. A key saves for its first item only. A key without queued items
// is forgotten: when it returns, it has neither credit nor debt.
//
// Each rank has rounds of its own. The items of a key go in order of rank, and then of Push. Any
// slot takes any key; the slot with the fewest items is served first.
type fair struct {
	grouped
	tiers map[int64]tier // by rank; none is empty
}

// tier is the state of one rank.
type tier struct {
	round int64 // in which an item was last served; the first item of each key has its cost by this round or later
	keys  int   // with items of this rank
}

func newFair() *fair {
	p := &fair{grouped: newGrouped(), tiers: map[int64]tier{}}
	p.groupOf = func(it *Item) uint64 { return it.Key ^ mix(uint64(it.Rank)) } // a key has a group for each rank
	p.orderOf = p.roundOrder
	return p
}

// roundOrder returns the order of a key: by rank, by the round that serves it, then by turn.
func (p *fair) roundOrder(g *group) (int, order) {
	first := g.queue.first()
	cost := weight(first)
	g.savesFrom = max(g.savesFrom, p.tiers[first.Rank].round-cost) // if a more expensive first item was removed
	return 0, order{first.Rank, g.savesFrom + cost, g.turn}
}

func (p *fair) Push(it *Item) bool {
	g := p.enter(it)
	if g.queue.len() == 0 {
		t := p.tiers[it.Rank]
		t.keys++
		p.tiers[it.Rank] = t
		g.savesFrom = t.round
	}
	return p.push(g, it)
}

func (p *fair) Choice(*Item) Choice { return Choice{Key: true} }

func (p *fair) pop(it *Item, served bool) {
	g, t := it.group, p.tiers[it.Rank]
	if served {
		g.savesFrom += weight(it)
		t.round = g.savesFrom
	}
	if g.queue.len() == 1 {
		t.keys--
	}
	if p.tiers[it.Rank] = t; t.keys == 0 {
		delete(p.tiers, it.Rank)
	}
	p.grouped.pop(it, served)
}
