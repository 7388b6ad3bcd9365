package sched

// HandRank is where the ranks begin that items are given by hand: above it, and below -HandRank.
// The ranks between are priorities, the highest the lowest rank, and change with time: 64 starts
// of items of a higher priority than its own give a waiting item the next lower rank. So none
// waits for ever, however many come.
const HandRank = 1 << 32

// step is the number of starts.
const step = 64

// ages counts starts for items that wait. newAges makes one.
type ages struct {
	fresh  cohort // items of their own ranks
	raised cohort // items of lower ranks than their own
}

// cohort holds items by rank.
type cohort struct {
	slab   // indexed; the owner of a node is level.passed when the item came to its rank
	levels byRank[*level]
}

// level holds the waiting items of a rank, those first that came to it first.
type level struct {
	list
	passed int32 // starts that have passed its items, modulo 1<<32
}

func newAges() ages { return ages{cohort{slab: newIndexedSlab()}, cohort{slab: newIndexedSlab()}} }

// add adds an item, unless its rank is given by hand.
func (a *ages) add(it *Item) {
	if it.Rank > -HandRank && it.Rank < HandRank {
		a.fresh.add(it)
	}
}

// remove removes an item, if it is in.
func (a *ages) remove(id uint64) {
	a.fresh.remove(id)
	a.raised.remove(id)
}

// start removes an item that starts, and calls raise for each that has come to another rank by
// that.
func (a *ages) start(it *Item, raise func(Item)) {
	a.remove(it.ID)
	up := func(it Item) {
		it.Rank--
		a.raised.add(&it)
		raise(it)
	}
	a.raised.pass(it.Rank, up)
	a.fresh.pass(it.Rank+1, up)
}

func (c *cohort) add(it *Item) {
	i, found := c.levels.find(it.Rank)
	if !found {
		c.levels.insert(i, it.Rank, &level{})
	}
	l := c.levels[i].x
	c.nodes[c.put(&l.list, it, l.tail)].owner = l.passed
}

func (c *cohort) remove(id uint64) {
	if i := c.where[id]; i != 0 {
		at, _ := c.levels.find(c.nodes[i].Rank)
		c.cut(&c.levels[at].x.list, i)
	}
}

// pass notes that an item has passed those of a rank and of higher ones, and takes out those
// that step items have passed there, for up.
func (c *cohort) pass(rank int64, up func(Item)) {
	at, _ := c.levels.find(rank)
	for ; at < len(c.levels); at++ {
		l := c.levels[at].x
		l.passed++
		for l.n > 0 && l.passed-c.nodes[l.head].owner >= step {
			it := *c.first(&l.list)
			c.cut(&l.list, l.head)
			up(it)
			at, _ = c.levels.find(it.Rank)
		}
	}
}
