package sched

// Limiter admits a limited number of items of each key at once and parks the
// others, outside of any policy. An admitted item counts until Done, whether it
// is queued or running. NewLimiter makes one.
type Limiter struct {
	limit  int
	gates  map[uint64]*gate // of keys with an item admitted or parked
	parked slab
	spare  spares[gate]
}

type gate struct {
	admitted int
	parked   list // the items of each rank in order of ID
}

// NewLimiter returns an empty Limiter that admits limit items of each key; less
// than 1 counts as 1.
func NewLimiter(limit int) *Limiter {
	return &Limiter{limit: max(limit, 1), gates: map[uint64]*gate{}, parked: newIndexedSlab()}
}

// Admit reports whether an item may go on to the policy. If not, the item is
// parked until a Done of its key returns it. After its own Done, an item that is
// to run again, such as a retry, has to be admitted again.
func (l *Limiter) Admit(it Item) bool {
	g := l.gates[it.Key]
	if g == nil {
		g = l.spare.take()
		l.gates[it.Key] = g
	}
	if g.admitted < l.limit {
		g.admitted++
		return true
	}
	l.parked.insert(&g.parked, &it)
	return false
}

// Done ends an admitted item of a key: its attempt is over, or it was removed
// from the policy. If items of that key are parked, the first one in order of Rank
// and then of ID is admitted instead, and Done returns it.
func (l *Limiter) Done(key uint64) (it Item, ok bool) {
	g := l.gates[key]
	if g.parked.n > 0 {
		it = *l.parked.first(&g.parked)
		l.parked.cut(&g.parked, g.parked.head)
		return it, true
	}
	g.admitted--
	if g.admitted == 0 {
		delete(l.gates, key)
		l.spare.put(g)
	}
	return it, false
}

// Exchange parks an admitted item, which is in no policy any more, and admits in its place
// the parked item of the same key with an ID.
func (l *Limiter) Exchange(id uint64, admitted Item) {
	g := l.gates[admitted.Key]
	l.parked.cut(&g.parked, l.parked.where[id])
	l.parked.insert(&g.parked, &admitted)
}

// Remove removes a parked item and reports whether it was parked.
func (l *Limiter) Remove(id uint64) bool {
	i := l.parked.where[id]
	if i != 0 {
		l.parked.cut(&l.gates[l.parked.nodes[i].Key].parked, i)
	}
	return i != 0
}

// Blocks is an iter.Seq of the keys with parked items, in any order.
func (l *Limiter) Blocks(yield func(Block) bool) {
	for _, g := range l.gates {
		if g.parked.n > 0 && !yield(Block{N: g.parked.n, ID: l.parked.first(&g.parked).ID, OneKey: true}) {
			return
		}
	}
}
