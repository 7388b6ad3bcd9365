package sched

import (
	"cmp"
	"slices"
)

func without(items []*Item, id uint64) []*Item {
	if i := indexOf(items, id); i >= 0 {
		return slices.Delete(items, i, i+1)
	}
	return items
}

// with inserts an item before the first item that it precedes.
func with(items []*Item, it *Item, precedes func(a, b *Item) bool) []*Item {
	i := slices.IndexFunc(items, func(o *Item) bool { return precedes(it, o) })
	if i < 0 {
		i = len(items)
	}
	return slices.Insert(items, i, it)
}

func byRankOnly(a, b *Item) bool { return a.Rank < b.Rank }

func byRankAndID(a, b *Item) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), byID(a, b)) }

func firstOf(items []*Item) (*Item, bool) {
	if len(items) == 0 {
		return nil, false
	}
	return items[0], true
}

type naiveFIFO struct {
	w     *slotState
	queue []*Item
}

func (m *naiveFIFO) push(it *Item)          { m.queue = with(m.queue, it, byRankOnly) }
func (m *naiveFIFO) next(int) (*Item, bool) { return firstOf(m.queue) }
func (m *naiveFIFO) pop(_ int, it *Item)    { m.remove(it.ID) }
func (m *naiveFIFO) done(int, *Item, bool)  {}
func (m *naiveFIFO) remove(id uint64)       { m.queue = without(m.queue, id) }
func (m *naiveFIFO) change(int)             {}
func (m *naiveFIFO) before(a, b int) bool   { return m.w.held[a] <= m.w.held[b] }

// naiveByCost keeps its queue in the order in which items start.
type naiveByCost struct {
	naiveFIFO
	sign int64
}

func (m *naiveByCost) push(it *Item) {
	m.queue = with(m.queue, it, func(a, b *Item) bool {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(m.sign*a.Cost, m.sign*b.Cost), byID(a, b)) < 0
	})
}

type naiveRoundRobin struct{ naiveFIFO }

func (m *naiveRoundRobin) push(it *Item) {
	m.queue = with(m.queue, it, func(a, b *Item) bool { return byRankAndID(a, b) < 0 })
}

func (m *naiveRoundRobin) next(slot int) (*Item, bool) {
	for _, it := range m.queue {
		if m.w.ids[int(it.ID-1)%len(m.w.ids)] == slot {
			return it, true
		}
	}
	return nil, false
}

// naiveFair is deficit round robin, round by round.
type naiveFair struct {
	naiveFIFO
	keys []naiveAccount // with items; within a rank, the key that was served or added longest ago first
}

type naiveAccount struct{ key, rank, saved int64 }

func (a naiveAccount) of(it *Item) bool { return a.key == int64(it.Key) && a.rank == it.Rank }

// first returns the first item of an account.
func (m *naiveFair) first(a naiveAccount) *Item {
	return m.queue[slices.IndexFunc(m.queue, a.of)]
}

func (m *naiveFair) push(it *Item) {
	m.naiveFIFO.push(it)
	a := naiveAccount{key: int64(it.Key), rank: it.Rank}
	if !slices.ContainsFunc(m.keys, func(b naiveAccount) bool { return b.of(it) }) {
		m.keys = append(m.keys, a)
	}
}

// serve returns the index of the next account, and the number of rounds until then.
func (m *naiveFair) serve() (at int, rounds int64) {
	for ; ; rounds++ {
		for i, a := range m.keys {
			if a.rank == m.queue[0].Rank && a.saved+rounds >= m.first(a).Cost {
				return i, rounds
			}
		}
	}
}

func (m *naiveFair) next(int) (*Item, bool) {
	if len(m.queue) == 0 {
		return nil, false
	}
	i, _ := m.serve()
	return m.first(m.keys[i]), true
}

func (m *naiveFair) pop(_ int, it *Item) {
	i, rounds := m.serve()
	for k := range m.keys {
		if m.keys[k].rank == it.Rank {
			m.keys[k].saved += rounds
		}
	}
	a := m.keys[i]
	a.saved -= it.Cost
	m.keys = append(slices.Delete(m.keys, i, i+1), a)
	m.remove(it.ID)
}

// remove forgets the account of the last item. No account has saved more than its first item costs.
func (m *naiveFair) remove(id uint64) {
	m.naiveFIFO.remove(id)
	m.keys = slices.DeleteFunc(m.keys, func(a naiveAccount) bool { return !slices.ContainsFunc(m.queue, a.of) })
	for i, a := range m.keys {
		m.keys[i].saved = min(a.saved, m.first(a).Cost)
	}
}

type naiveLeastBusy struct {
	naiveFIFO
	running bySlot[int]
}

func (m *naiveLeastBusy) pop(slot int, it *Item) {
	m.remove(it.ID)
	m.running[slot] += int(it.Cost)
}

func (m *naiveLeastBusy) done(slot int, it *Item, _ bool) { m.running[slot] -= int(it.Cost) }

func (m *naiveLeastBusy) before(a, b int) bool {
	return m.running[a]*m.w.cap(b) <= m.running[b]*m.w.cap(a)
}

type naiveKeyed struct {
	w    *slotState
	keys []*naiveKey
}

type naiveKey struct {
	key     uint64
	slot    int    // 0 if there was no work, or no slot
	blocked uint64 // ID of the item that blocks it, or 0
	running bool   // that item is running, not awaited
	queue   []*Item
}

func (k *naiveKey) work() bool { return k.blocked != 0 || len(k.queue) > 0 }

// placeOf returns the StableHash of a key of the driver. Some keys share one.
func placeOf(key uint64) uint64 { return StableHash(string(rune('a' + key%5))) }

// home returns the slot that a key belongs to.
func (m *naiveKeyed) home(key uint64) int {
	place := placeOf(key)
	var best []int
	var most uint64
	for _, id := range m.w.ids {
		host := m.w.slots[id].Host
		weight := mix(place ^ mix(host))
		if best == nil || weight > most {
			best, most = nil, weight
		}
		if weight == most {
			best = append(best, id)
		}
	}
	if best == nil {
		return 0
	}
	return best[jump(place, len(best))]
}

func (m *naiveKeyed) of(key uint64) *naiveKey {
	for _, k := range m.keys {
		if k.key == key {
			return k
		}
	}
	k := &naiveKey{key: key}
	m.keys = append(m.keys, k)
	return k
}

func (m *naiveKeyed) push(it *Item) {
	k := m.of(it.Key)
	if !k.work() {
		k.slot = m.home(it.Key)
	}
	if k.blocked == it.ID {
		k.blocked = 0
	}
	k.queue = append(k.queue, it)
	hand := func(it *Item) *Item {
		rank := it.Rank
		if rank > -ManualRank && rank < ManualRank {
			rank = 0
		}
		return &Item{ID: it.ID, Rank: rank}
	}
	slices.SortFunc(k.queue, func(a, b *Item) int { return byRankAndID(hand(a), hand(b)) })
}

func (m *naiveKeyed) next(slot int) (*Item, bool) {
	first := &Item{}
	for _, k := range m.keys {
		if k.slot == slot && k.blocked == 0 && len(k.queue) > 0 && (first.ID == 0 || byRankAndID(k.queue[0], first) < 0) {
			first = k.queue[0]
		}
	}
	return first, first.ID != 0
}

func (m *naiveKeyed) pop(_ int, it *Item) {
	k := m.of(it.Key)
	k.queue = k.queue[1:]
	k.blocked, k.running = it.ID, true
}

func (m *naiveKeyed) done(_ int, it *Item, again bool) {
	k := m.of(it.Key)
	k.running = false
	if !again {
		k.blocked = 0
	}
	m.change(k.slot)
}

func (m *naiveKeyed) remove(id uint64) {
	for _, k := range m.keys {
		k.queue = without(k.queue, id)
		if k.blocked == id {
			k.blocked = 0
		}
	}
}

// change moves the keys without a running item to the slots where they belong.
func (m *naiveKeyed) change(int) {
	for _, k := range m.keys {
		if k.work() && !k.running {
			k.slot = m.home(k.key)
		}
	}
}

func (m *naiveKeyed) before(a, b int) bool { return m.w.held[a] <= m.w.held[b] }
