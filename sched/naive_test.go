package sched

import (
	"cmp"
	"slices"
)

func without(items []Item, id uint64) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(it Item) bool { return it.ID == id })
}

func sorted(items []Item) []Item {
	return slices.SortedFunc(slices.Values(items), func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
}

func firstOf(items []Item) (Item, bool) {
	if len(items) == 0 {
		return Item{}, false
	}
	return items[0], true
}

type naiveFIFO struct{ queue []Item }

func (m *naiveFIFO) push(it Item)          { m.queue = append(m.queue, it) }
func (m *naiveFIFO) next(int) (Item, bool) { return firstOf(m.queue) }
func (m *naiveFIFO) pop(_ int, it Item)    { m.remove(it.ID) }
func (m *naiveFIFO) done(int, Item, bool)  {}
func (m *naiveFIFO) remove(id uint64)      { m.queue = without(m.queue, id) }
func (m *naiveFIFO) resize(int)            {}

type naiveRoundRobin struct {
	n     int
	queue []Item
}

func (m *naiveRoundRobin) push(it Item) { m.queue = append(m.queue, it) }
func (m *naiveRoundRobin) next(worker int) (Item, bool) {
	for _, it := range m.queue {
		if (int(it.ID)-1)%m.n+1 == worker {
			return it, true
		}
	}
	return Item{}, false
}
func (m *naiveRoundRobin) pop(_ int, it Item)   { m.remove(it.ID) }
func (m *naiveRoundRobin) done(int, Item, bool) {}
func (m *naiveRoundRobin) remove(id uint64)     { m.queue = without(m.queue, id) }
func (m *naiveRoundRobin) resize(n int)         { m.n, m.queue = n, sorted(m.queue) }

type naiveLeastBusy struct {
	n       int
	queues  map[int][]Item
	running map[int]int64
}

func newNaiveLeastBusy(n int) model {
	return &naiveLeastBusy{n: n, queues: map[int][]Item{}, running: map[int]int64{}}
}

func cost(items []Item) int64 {
	var c int64
	for _, it := range items {
		c += it.Cost
	}
	return c
}

func (m *naiveLeastBusy) push(it Item) {
	least := 1
	for w := 2; w <= m.n; w++ {
		if cost(m.queues[w])+m.running[w] < cost(m.queues[least])+m.running[least] {
			least = w
		}
	}
	m.queues[least] = append(m.queues[least], it)
}

func (m *naiveLeastBusy) next(worker int) (Item, bool) {
	if len(m.queues[worker]) > 0 {
		return m.queues[worker][0], true
	}
	most := 1
	for w := 2; w <= m.n; w++ {
		if cost(m.queues[w]) > cost(m.queues[most]) {
			most = w
		}
	}
	return firstOf(m.queues[most])
}

func (m *naiveLeastBusy) pop(w int, it Item) {
	m.remove(it.ID)
	m.running[w] = it.Cost
}
func (m *naiveLeastBusy) done(w int, _ Item, _ bool) { m.running[w] = 0 }
func (m *naiveLeastBusy) remove(id uint64) {
	for w := range m.queues {
		m.queues[w] = without(m.queues[w], id)
	}
}

func (m *naiveLeastBusy) resize(n int) {
	for m.n > n {
		left := m.queues[m.n]
		delete(m.queues, m.n)
		m.n--
		for _, it := range left {
			m.push(it)
		}
	}
	m.n = n
}

type naiveKeyed struct {
	n       int
	queue   []Item
	home    map[uint64]int // of keys with work
	blocked map[uint64]uint64
	running map[uint64]bool // keys
}

func newNaiveKeyed(n int) *naiveKeyed {
	return &naiveKeyed{n: n, home: map[uint64]int{}, blocked: map[uint64]uint64{}, running: map[uint64]bool{}}
}

func (m *naiveKeyed) push(it Item) {
	if m.blocked[it.Key] == it.ID {
		delete(m.blocked, it.Key)
	}
	m.queue = sorted(append(m.queue, it))
	if m.home[it.Key] == 0 {
		m.home[it.Key] = Jump(it.Key, m.n) + 1
	}
}

func (m *naiveKeyed) next(worker int) (Item, bool) {
	seen := map[uint64]bool{}
	for _, it := range m.queue {
		if m.home[it.Key] == worker && m.blocked[it.Key] == 0 && !seen[it.Key] {
			return it, true
		}
		seen[it.Key] = true
	}
	return Item{}, false
}

func (m *naiveKeyed) pop(_ int, it Item) {
	m.queue = without(m.queue, it.ID)
	m.blocked[it.Key] = it.ID
	m.running[it.Key] = true
}

func (m *naiveKeyed) done(_ int, it Item, again bool) {
	delete(m.running, it.Key)
	if !again {
		delete(m.blocked, it.Key)
	}
	m.settle()
}

func (m *naiveKeyed) remove(id uint64) {
	m.queue = without(m.queue, id)
	for key, by := range m.blocked {
		if by == id && !m.running[key] {
			delete(m.blocked, key)
		}
	}
	m.settle()
}

func (m *naiveKeyed) resize(n int) {
	m.n = n
	m.settle()
}

func (m *naiveKeyed) settle() {
	for key, w := range m.home {
		work := m.blocked[key] != 0 || slices.ContainsFunc(m.queue, func(it Item) bool { return it.Key == key })
		if !work {
			delete(m.home, key)
		} else if w > m.n && !m.running[key] {
			m.home[key] = Jump(key, m.n) + 1
		}
	}
}
