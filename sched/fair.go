package sched

import "maps"

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
	rounds map[int64]int64 // by rank: in which an item was last served; the first item of each key has its cost by this round or later
}

func newFair() *fair {
	p := &fair{grouped: newGrouped(), rounds: map[int64]int64{}}
	p.groupOf = func(it *Item) uint64 { return it.Key ^ mix(uint64(it.Rank)) } // a key has a group for each rank
	p.orderOf = p.roundOrder
	return p
}

// roundOrder returns the order of a key: by rank, by the round that serves it, then by turn.
func (p *fair) roundOrder(g *group) (int, order) {
	first := g.queue.first()
	cost := weight(first)
	g.savesFrom = max(g.savesFrom, p.rounds[first.Rank]-cost) // if a more expensive first item was removed
	return 0, order{first.Rank, g.savesFrom + cost, g.turn}
}

func (p *fair) Push(it *Item) bool {
	g := p.enter(it)
	if g.queue.len() == 0 {
		g.savesFrom = p.rounds[it.Rank]
	}
	return p.push(g, it)
}

func (p *fair) Choice(*Item) Choice { return Choice{Key: true} }

func (p *fair) pop(it *Item, served bool) {
	if g := it.group; served {
		g.savesFrom += weight(it)
		p.rounds[it.Rank] = g.savesFrom
		maps.DeleteFunc(p.rounds, func(rank, _ int64) bool { return rank < it.Rank }) // no item has a lower rank
	}
	p.grouped.pop(it, served)
}
