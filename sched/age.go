package sched

// HandRank is where the ranks begin that items are given by hand: above it, and below -HandRank.
// The ranks between are priorities, the highest the lowest rank, and change with time: 64 starts
// that pass a waiting item give it the next lower rank. So none waits for ever, however many come.
// Items of a lower rank pass, and those of the same rank that start before one that came earlier.
const HandRank = 1 << 32

// step is the number of starts.
const step = 64

// ages counts starts for items that wait. The zero value needs a slab.
type ages struct {
	slab   // indexed; the owner of a node is level.passed when the item came to its rank
	levels byRank[*level]
}

// level holds the waiting items of a rank, those first that came to it first.
type level struct {
	list
	passed int32 // starts that have passed its items, modulo 1<<32
}

// add adds an item, unless its rank is given by hand.
func (a *ages) add(it *Item) {
	if it.Rank <= -HandRank || it.Rank >= HandRank {
		return
	}
	i, found := a.levels.find(it.Rank)
	if !found {
		a.levels.insert(i, it.Rank, &level{})
	}
	l := a.levels[i].x
	a.nodes[a.put(&l.list, it, l.tail)].owner = l.passed
}

// remove removes an item, if it is in.
func (a *ages) remove(id uint64) {
	if i := a.where[id]; i != 0 {
		at, _ := a.levels.find(a.nodes[i].Rank)
		a.cut(&a.levels[at].x.list, i)
	}
}

// start removes an item that starts, and calls raise for each that has come to another rank by
// that.
func (a *ages) start(it *Item, raise func(Item)) {
	at, found := a.levels.find(it.Rank)
	if i := a.where[it.ID]; found && (i == 0 || i == a.levels[at].x.head) {
		at++
	}
	a.remove(it.ID)
	for ; at < len(a.levels); at++ {
		l := a.levels[at].x
		l.passed++
		for l.n > 0 && l.passed-a.nodes[l.head].owner >= step {
			it := *a.first(&l.list)
			a.cut(&l.list, l.head)
			it.Rank--
			a.add(&it)
			at, _ = a.levels.find(it.Rank + 1)
			raise(it)
		}
	}
}
