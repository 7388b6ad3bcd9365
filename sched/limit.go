package sched

// Limiter lets at most a number of items of each key through at once and parks
// the others, outside of any policy. What it let through counts until Done,
// queued or running. NewLimiter makes one.
type Limiter struct {
	limit  int
	gates  map[uint64]*gate // keys with anything let through or parked
	where  map[uint64]int32 // the node of each parked item
	slab   slab
	unused []*gate
}

type gate struct {
	through int
	parked  list // in the order of IDs
}

// NewLimiter returns an empty Limiter that lets limit items of a key through;
// less than 1 is taken as 1.
func NewLimiter(limit int) *Limiter {
	return &Limiter{
		limit: max(limit, 1),
		gates: map[uint64]*gate{},
		where: map[uint64]int32{},
	}
}

// Admit says whether an item may go on to the policy. If not, it is parked
// until a Done of its key returns it. An item whose place was given up with
// Done, such as one that waits for its retry, is asked for again.
func (l *Limiter) Admit(it Item) bool {
	g := l.gates[it.Key]
	if g == nil {
		if last := len(l.unused) - 1; last >= 0 {
			g, l.unused = l.unused[last], l.unused[:last]
		} else {
			g = &gate{}
		}
		l.gates[it.Key] = g
	}
	if g.through < l.limit {
		g.through++
		return true
	}
	l.where[it.ID] = l.slab.insert(&g.parked, it, 0)
	return false
}

// Done says that an item of key which was let through gives its place up: its
// attempt is over or it was removed from the policy. It returns the parked item
// of that key with the lowest ID, if there is one, which is let through with
// that.
func (l *Limiter) Done(key uint64) (Item, bool) {
	g := l.gates[key]
	if g.parked.n > 0 {
		it := l.slab.cut(&g.parked, g.parked.head)
		delete(l.where, it.ID)
		return it, true
	}
	g.through--
	if g.through == 0 {
		delete(l.gates, key)
		l.unused = append(l.unused, g)
	}
	return Item{}, false
}

// Remove takes out a parked item and says whether it was parked.
func (l *Limiter) Remove(id uint64) bool {
	i := l.where[id]
	if i == 0 {
		return false
	}
	l.slab.cut(&l.gates[l.slab.nodes[i].Key].parked, i)
	delete(l.where, id)
	return true
}

// Longest is the key with the most parked items. It looks at all keys.
func (l *Limiter) Longest() Block {
	var b Block
	for key, g := range l.gates {
		if g.parked.n == 0 || g.parked.n < b.N {
			continue
		}
		if id := l.slab.first(&g.parked).ID; g.parked.n > b.N || id < b.ID {
			b = Block{N: g.parked.n, ID: id, Key: key, OneKey: true}
		}
	}
	return b
}
