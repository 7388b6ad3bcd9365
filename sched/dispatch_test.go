package sched

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rink is a Dispatcher beside a naive model of it.
type rink struct {
	t       *testing.T
	d       *Dispatcher
	limits  Limits
	rate    window
	keyRate window
	claims  []*Claim
	shared  bool // every slot takes every item
	slots   map[int]Slot
	now     time.Time
	last    uint64
	waiting map[uint64]Item
	retries map[uint64]Item // awaited
	running map[uint64]Item
	in      map[uint64]int // the slot of each running item
	width   map[uint64]int // and how many places it took
	hosts   int
	stocks  []*Stock          // of the hosts
	has     map[*Stock][]int  // units of each limit of hosts
	from    map[uint64]*Stock // that of the slot of each running item
	parked  map[uint64]bool
	refused map[int]bool
	starts  []time.Time
	keys    map[uint64][]time.Time // starts of each key

	head   uint64         // the first item that waits for what it claims
	passed map[uint64]int // how many have passed it on each host
	calm   bool           // slots do not join or leave
}

// window is a rate as its user knows it.
type window struct {
	n, burst int
	period   time.Duration
}

func (w window) rate() Rate {
	if w.n == 0 {
		return Rate{}
	}
	return NewRate(w.n, w.period, w.burst)
}

// check checks that no interval that ends with the latest start holds too many.
func (w window) check(t *testing.T, starts []time.Time) {
	if most := w.n + w.burst - 1; w.n > 0 && len(starts) > most {
		last := starts[len(starts)-1]
		require.True(t, last.After(starts[len(starts)-1-most].Add(w.period)), "%d starts within %v", most+1, w.period)
	}
}

func someWindow() window {
	if rand.IntN(2) == 0 {
		return window{}
	}
	return window{1 + rand.IntN(5), 1 + rand.IntN(4), time.Duration(1+rand.IntN(40)) * time.Millisecond}
}

func newRink(t *testing.T, policy string) *rink {
	p, err := New(Config{Name: policy, Topics: Topics{Auto: policy == "topic"}})
	require.NoError(t, err)
	r := &rink{
		t: t, now: time.Unix(1e9, 0), shared: policy == "fifo" || policy == "longest-first" || policy == "shortest-first" || policy == "least-busy" || policy == "fair",
		slots: map[int]Slot{}, waiting: map[uint64]Item{}, retries: map[uint64]Item{}, running: map[uint64]Item{}, in: map[uint64]int{},
		width: map[uint64]int{}, parked: map[uint64]bool{}, refused: map[int]bool{}, keys: map[uint64][]time.Time{}, calm: rand.IntN(2) == 0,
	}
	r.rate, r.keyRate = someWindow(), someWindow()
	r.limits = Limits{
		PerKey: rand.IntN(4), Rate: r.rate.rate(), KeyRate: r.keyRate.rate(), Delay: Rate{Every: time.Duration(rand.IntN(2)*rand.IntN(10)) * time.Millisecond},
		Ages: rand.IntN(2) == 0,
		Parked: func(id uint64, parked bool) {
			require.NotEqual(t, r.parked[id], parked)
			r.parked[id] = parked
		},
	}
	r.claims = make([]*Claim, 3)
	if rand.IntN(2) == 0 {
		r.limits.Caps = []int{1, 3, 5}
		r.claims = append(r.claims, &Claim{Units: []Units{{0, 1}}}, &Claim{Units: []Units{{1, 2}}}, &Claim{Units: []Units{{1, 1}, {2, 3}}}, &Claim{Units: []Units{{0, 1}, {1, 3}, {2, 1}}})
	}
	if policy != "keyed" && policy != "topic" && rand.IntN(2) == 0 {
		r.claims = append(r.claims, &Claim{Places: 3}, &Claim{Places: 100})
		if r.limits.Caps != nil {
			r.claims = append(r.claims, &Claim{Places: 2, Units: []Units{{1, 2}}})
		}
	}
	if rand.IntN(2) == 0 {
		r.limits.May = func(slot int) bool { return !r.refused[slot] }
	}
	r.hosts = 1 + rand.IntN(2)
	r.stocks, r.has, r.from = make([]*Stock, 2), map[*Stock][]int{}, map[uint64]*Stock{}
	if policy != "keyed" && policy != "topic" && rand.IntN(2) == 0 {
		r.offer()
	}
	r.d = NewDispatcher(p, r.limits)
	for id := range 1 + rand.IntN(4) {
		r.join(id + 1)
	}
	return r
}

// offer has hosts, or one of them, have units, and items claim these.
func (r *rink) offer() {
	for i := range r.stocks {
		if all := [][]int{{1, 4}, {2}, nil}[rand.IntN(3)]; i == 0 || all != nil {
			r.stocks[i] = NewStock(all)
			r.has[r.stocks[i]] = all
		}
	}
	own := len(r.limits.Caps)
	r.claims = append(r.claims, &Claim{Units: []Units{{own, 1}}}, &Claim{Units: []Units{{own + 1, 1}}}, &Claim{Units: []Units{{own + 1, 4}}},
		&Claim{Units: []Units{{own, 1}, {own + 1, 2}}}, &Claim{Units: []Units{{own + 2, 1}}})
	if own > 0 {
		r.claims = append(r.claims, &Claim{Units: []Units{{1, 2}, {own, 1}}})
	}
	if slices.ContainsFunc(r.claims, (*Claim).wide) {
		r.claims = append(r.claims, &Claim{Places: 2, Units: []Units{{own, 1}}}, &Claim{Places: 100, Units: []Units{{own + 1, 3}}})
	}
}

func (r *rink) join(id int) {
	host := rand.IntN(r.hosts)
	r.slots[id] = Slot{ID: id, Cap: 1 + rand.IntN(3), Host: uint64(host), Stock: r.stocks[host]}
	r.d.Join(r.slots[id])
}

func (r *rink) heldOf(key uint64) (n int) {
	for _, it := range r.running {
		if it.Key == key {
			n++
		}
	}
	return n
}

func (r *rink) taken(limit int) (n int) {
	for _, it := range r.running {
		if it.Claim != nil {
			for _, u := range it.Claim.Units {
				if u.Cap == limit {
					n += u.N
				}
			}
		}
	}
	return n
}

// takenOf returns how many units of a limit of hosts the running items have that are from a stock.
func (r *rink) takenOf(stock *Stock, limit int) (n int) {
	for id, it := range r.running {
		if it.Claim == nil || r.from[id] != stock {
			continue
		}
		for _, u := range it.Claim.Units {
			if u.Cap == limit {
				n += u.N
			}
		}
	}
	return n
}

// lacks reports whether a stock does not have what is claimed of a host, or what is left of it.
func (r *rink) lacks(stock *Stock, c *Claim, left bool) bool {
	return c != nil && slices.ContainsFunc(c.Units, func(u Units) bool {
		i, all := u.Cap-len(r.limits.Caps), 0
		if i < 0 {
			return false
		}
		if has := r.has[stock]; i < len(has) {
			all = has[i]
		}
		if left {
			all -= r.takenOf(stock, u.Cap)
		}
		return u.N > all
	})
}

// places returns how many places there are, and on the host with the most that has what is claimed.
func (r *rink) places(c *Claim) (all, most int) {
	of := map[uint64]int{}
	for _, s := range r.slots {
		all += s.Cap
		if !r.lacks(s.Stock, c, false) {
			of[s.Host] += s.Cap
			most = max(most, of[s.Host])
		}
	}
	return all, most
}

// anyOf returns any key of a map, or 0.
func anyOf[V any](m map[uint64]V) uint64 {
	ids := slices.Sorted(maps.Keys(m))
	if len(ids) == 0 {
		return 0
	}
	return ids[rand.IntN(len(ids))]
}

func (r *rink) push(it Item) {
	it.Rank = []int64{0, 0, 0, 0, 0, 0, -2, -1, 1, 2 * HandRank}[rand.IntN(10)]
	require.True(r.t, r.d.Push(it))
	r.waiting[it.ID] = it
}

// next asks for the next item, checks the answer, and reports whether there was one.
func (r *rink) next() bool {
	before := r.d.Held()
	served := map[uint64]bool{}
	for id, c := range r.d.called {
		served[id] = c.gate == nil
	}
	it, slot, wait := r.d.Next(r.now)
	if slot == 0 {
		r.idle(wait)
		return false
	}
	all, most := r.places(it.Claim)
	want, ok := r.waiting[it.ID]
	require.True(r.t, ok, "an item starts that does not wait")
	require.GreaterOrEqual(r.t, it.Rank, want.Rank)
	want.Rank = it.Rank
	require.Equal(r.t, want, it)
	require.True(r.t, r.limits.May == nil || !r.refused[slot])
	require.False(r.t, r.parked[it.ID])
	r.starts, r.keys[it.Key] = append(r.starts, r.now), append(r.keys[it.Key], r.now)
	window{1, 1, r.limits.Delay.Every - 1}.check(r.t, r.starts)
	r.rate.check(r.t, r.starts)
	r.keyRate.check(r.t, r.keys[it.Key])
	delete(r.waiting, it.ID)
	r.running[it.ID], r.in[it.ID], r.width[it.ID] = it, slot, 1
	r.from[it.ID] = r.slots[slot].Stock
	if it.Claim.wide() {
		r.width[it.ID] = min(it.Claim.Places, most)
	}
	require.Equal(r.t, before+r.width[it.ID], r.d.Held())
	if r.calm {
		require.LessOrEqual(r.t, r.d.Held(), all)
	}
	for i, n := range r.limits.Caps {
		require.LessOrEqual(r.t, r.taken(i), n)
		require.LessOrEqual(r.t, r.taken(i), r.d.caps[i].taken)
	}
	for stock, all := range r.has {
		for i, n := range all {
			require.LessOrEqual(r.t, r.takenOf(stock, len(r.limits.Caps)+i), n)
		}
	}
	require.False(r.t, r.lacks(r.slots[slot].Stock, it.Claim, false))
	if n := r.limits.PerKey; n > 0 && !r.d.Serial() {
		require.LessOrEqual(r.t, r.heldOf(it.Key), n)
	}
	if !served[it.ID] { // else it has passed before
		r.passes(it, all)
	}
	return true
}

// passes checks that not too many items pass one that waits for what it claims, where all slots
// are on one host and remain.
func (r *rink) passes(it Item, all int) {
	if !r.calm || r.limits.Ages {
		return
	}
	var first Item
	for id, w := range r.waiting {
		if r.parked[id] && w.Claim != nil && r.d.parked.nodes[r.d.parked.where[id]].owner == inLine &&
			(first.ID == 0 || w.Rank < first.Rank || w.Rank == first.Rank && id < first.ID) {
			if _, most := r.places(w.Claim); most == 0 {
				continue // no host has what it claims
			}
			first = w
		}
	}
	if r.head != first.ID {
		r.head, r.passed = first.ID, map[uint64]int{}
	} else if first.ID != 0 && first.Claim != it.Claim && (first.Claim.wide() || first.Claim.shares(it.Claim)) {
		r.passed[r.slots[r.in[it.ID]].Host]++
		passed, one := math.MaxInt, r.d.local(first.Claim) // or else all have to be on one host
		for _, s := range r.slots {
			if !r.lacks(s.Stock, first.Claim, false) {
				passed = min(passed, r.passed[s.Host])
			}
		}
		if _, most := r.places(first.Claim); most == all || one {
			holds(r.t, passed <= patience*all, "%d pass an item where there are %d places", passed, all)
		}
	}
}

// idle checks that nothing could start.
func (r *rink) idle(wait Wait) {
	switch wait {
	case ForDelay, ForRate:
		require.True(r.t, r.now.Before(r.d.Again()))
		require.NotEmpty(r.t, r.waiting)
		return
	case ForPlaces:
		require.NotNil(r.t, r.d.wide)
		return
	case ForToken:
		return
	}
	free := false
	for id, s := range r.slots {
		free = free || s.Cap > r.d.slots[id].held && !r.refused[id]
	}
	if !r.shared || !free {
		return
	}
	for _, it := range r.waiting {
		holds(r.t, r.waits(it), "item %v could start", it)
	}
}

// waits reports whether an item has to wait although there is a place.
func (r *rink) waits(it Item) bool {
	if g := r.d.of[it.Key]; g != nil && (r.limits.PerKey > 0 && g.held >= r.limits.PerKey || g.rate.Every > 0 && (g.waits > 0 || r.now.Before(g.rate.at()))) {
		return true
	}
	if it.Claim == nil {
		return false
	}
	for _, u := range it.Claim.Units {
		if u.Cap >= len(r.limits.Caps) {
			continue
		}
		if c := r.d.caps[u.Cap]; c.taken+u.N > c.all || c.keeper != nil {
			return true
		}
	}
	if !it.Claim.wide() && !r.d.local(it.Claim) {
		return false
	}
	_, most := r.places(it.Claim)
	free, stocks := map[uint64]int{}, map[uint64]*Stock{}
	for id, s := range r.slots {
		free[s.Host] += max(0, s.Cap-r.d.slots[id].held)
		stocks[s.Host] = s.Stock
	}
	kept := func(host uint64) bool {
		return r.d.wide != nil && (it.Claim.wide() || r.d.site.host == host) || slices.ContainsFunc(it.Claim.Units, func(u Units) bool {
			return u.Cap >= len(r.limits.Caps) && r.d.counter(u.Cap, stocks[host]).keeper != nil
		})
	}
	for host, n := range free {
		if n >= max(1, min(it.Claim.Places, most)) && !r.lacks(stocks[host], it.Claim, true) && !kept(host) {
			return false
		}
	}
	return true
}

func (r *rink) done(id uint64, again bool) {
	it := r.running[id]
	r.d.Done(r.in[id], it, again)
	delete(r.running, id)
	delete(r.from, id)
	if again {
		r.retries[id] = it
	}
}

func (r *rink) remove(id uint64) {
	require.True(r.t, r.d.Remove(id))
	require.False(r.t, r.d.Remove(id))
	delete(r.waiting, id)
	delete(r.parked, id)
	if r.head == id { // it begins anew if it is pushed again
		r.head = 0
	}
}

func (r *rink) step() {
	switch op := rand.IntN(100); {
	case op < 25:
		r.last++
		r.push(Item{ID: r.last, Key: rand.Uint64N(5), Cost: 1 + rand.Int64N(5), Claim: r.claims[rand.IntN(len(r.claims))]})
	case op < 65:
		r.next()
	case op < 85:
		if id := anyOf(r.running); id != 0 {
			r.done(id, rand.IntN(5) == 0)
		}
	case op < 90:
		if id := anyOf(r.retries); id != 0 {
			it := r.retries[id]
			delete(r.retries, id)
			r.push(it)
		}
	case op < 93:
		id := anyOf(r.waiting)
		if it, waits := r.waiting[id]; waits {
			r.remove(id)
			if rand.IntN(2) == 0 {
				r.push(it)
			}
		}
	case op < 97:
		r.now = r.now.Add(time.Duration(rand.IntN(30)) * time.Millisecond)
	default:
		slot := 1 + rand.IntN(6)
		switch {
		case op == 97:
			r.refused[slot] = !r.refused[slot]
		case r.calm:
		case r.slots[slot].ID > 0:
			r.d.Leave(slot)
			delete(r.slots, slot)
		default:
			r.join(slot)
		}
	}
	for len(r.waiting) > 60 {
		r.remove(anyOf(r.waiting))
	}
	parked := 0
	for id := range r.waiting {
		if r.parked[id] {
			parked++
		}
	}
	require.Equal(r.t, len(r.waiting), r.d.Len()+parked)
	require.Equal(r.t, parked, r.d.parked.n)
}

func TestDispatcherRandom(t *testing.T) {
	for _, policy := range []string{"fifo", "round-robin", "least-busy", "keyed", "topic", "longest-first", "shortest-first", "fair"} {
		for range steps() / 4000 {
			r := newRink(t, policy)
			for range 1000 {
				r.step()
			}
			r.drain()
		}
	}
}

// drain has all that waits start.
func (r *rink) drain() {
	clear(r.refused)
	for id, it := range r.waiting {
		for host, stock := range r.stocks { // where nothing else is
			if _, in := r.slots[10+host]; !in && !r.lacks(stock, it.Claim, false) {
				r.slots[10+host] = Slot{ID: 10 + host, Host: uint64(host), Cap: 1, Stock: stock}
				r.d.Join(r.slots[10+host])
			}
		}
		if _, most := r.places(it.Claim); most == 0 {
			r.remove(id)
		}
	}
	if len(r.slots) == 0 {
		r.join(1)
	}
	for id := range r.retries {
		r.d.Remove(id)
	}
	for range 10_000 {
		if len(r.waiting)+len(r.running) == 0 {
			r.now = r.now.Add(time.Hour)
			r.next()
			require.Empty(r.t, r.d.of)
			require.Empty(r.t, r.d.called)
			require.Empty(r.t, r.d.lines)
			require.Zero(r.t, r.d.Held())
			return
		}
		r.now = r.now.Add(10 * time.Millisecond)
		for r.next() {
		}
		if id := anyOf(r.running); id != 0 {
			r.done(id, false)
		}
	}
	_, _, wait := r.d.Next(r.now)
	require.Fail(r.t, "something waits for ever", "%v %v running %v slots %v parked %v lines %v wide %v limits %+v", wait, r.waiting, r.running, r.slots, r.parked, len(r.d.lines), r.d.wide, r.limits)
}

// Once it has grown, nothing is allocated for an item, and keys are forgotten.
func TestDispatcherMemory(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{
		PerKey: 2, KeyRate: NewRate(1000, time.Second, 3), Rate: NewRate(10000, time.Second, 1), Caps: []int{2}, Ages: true,
		Parked: func(uint64, bool) {},
	})
	stock := NewStock([]int{3})
	for id := range 4 {
		d.Join(Slot{ID: id + 1, Stock: stock})
	}
	claims := []*Claim{nil, {Places: 3}, {Units: []Units{{0, 2}}}, {Places: 2, Units: []Units{{0, 1}}}, {Units: []Units{{1, 2}}}, {Units: []Units{{1, 1}}}}
	id, now := uint64(0), time.Unix(1e9, 0)
	var held []Item
	var slots []int
	turn := func() {
		for range 40 {
			id++
			d.Push(Item{ID: id, Key: id / 16, Cost: 1, Rank: int64(id % 3), Claim: claims[id%6]})
		}
		for started := 0; started < 40; now = now.Add(time.Millisecond) {
			for it, slot, _ := d.Next(now); slot != 0; it, slot, _ = d.Next(now) {
				held, slots = append(held, it), append(slots, slot)
				started++
			}
			for i := range held {
				d.Done(slots[i], held[i], false)
			}
			held, slots = held[:0], slots[:0]
		}
	}
	for range 100 {
		turn()
	}
	require.Zero(t, testing.AllocsPerRun(200, turn))
	d.Next(now.Add(time.Hour))
	require.Empty(t, d.of)
}
