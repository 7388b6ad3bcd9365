package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rink is a Dispatcher beside a naive model of it.
type rink struct {
	t        *testing.T
	d        *Dispatcher
	limits   Limits
	shared   bool // every slot takes every item
	slots    map[int]int
	now      time.Time
	last     uint64
	waiting  map[uint64]Item
	retries  map[uint64]Item // awaited
	running  map[uint64]Item
	in       map[uint64]int // the slot of each running item
	parked   map[uint64]bool
	begun    time.Time // the latest start
	rejected map[int]bool
}

func newRink(t *testing.T, policy string, limits Limits) *rink {
	p, err := New(Config{Name: policy, Topics: Topics{Auto: policy == "topic"}})
	require.NoError(t, err)
	r := &rink{
		t: t, limits: limits, shared: policy == "fifo" || policy == "longest-first" || policy == "least-busy", now: time.Unix(1e9, 0),
		slots: map[int]int{}, waiting: map[uint64]Item{}, retries: map[uint64]Item{}, running: map[uint64]Item{}, in: map[uint64]int{},
		parked: map[uint64]bool{}, rejected: map[int]bool{},
	}
	limits.Parked = func(id uint64, parked bool) {
		require.NotEqual(t, r.parked[id], parked)
		r.parked[id] = parked
	}
	if limits.May != nil {
		limits.May = func(slot int) bool { return !r.rejected[slot] }
	}
	r.d = NewDispatcher(p, limits)
	return r
}

func (r *rink) held(of func(Item) bool) (n int) {
	for _, it := range r.running {
		if of(it) {
			n++
		}
	}
	return n
}

func (r *rink) heldOf(key uint64) int { return r.held(func(it Item) bool { return it.Key == key }) }

// any returns a key of a map, or 0.
func anyOf[V any](m map[uint64]V) uint64 {
	if len(m) == 0 {
		return 0
	}
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[rand.IntN(len(ids))]
}

func (r *rink) push(it Item) {
	it.Rank = []int64{0, 0, 0, 0, 0, 0, -2, -1, 1, 2}[rand.IntN(10)]
	require.True(r.t, r.d.Push(it))
	r.waiting[it.ID] = it
}

// next asks for the next item and checks the answer.
func (r *rink) next() {
	it, slot, wait := r.d.Next(r.now)
	if slot == 0 {
		r.idle(wait)
		return
	}
	want, ok := r.waiting[it.ID]
	require.True(r.t, ok, "an item starts that does not wait")
	require.Equal(r.t, want, it)
	require.False(r.t, r.rejected[slot])
	require.False(r.t, r.parked[it.ID])
	require.False(r.t, r.now.Before(r.begun.Add(r.limits.Delay)))
	r.begun = r.now
	delete(r.waiting, it.ID)
	r.running[it.ID], r.in[it.ID] = it, slot
	if n := r.limits.PerKey; n > 0 && !r.d.Serial() {
		require.LessOrEqual(r.t, r.heldOf(it.Key), n)
		for _, other := range r.waiting {
			holds(r.t, !r.shared || other.Key != it.Key || !r.parked[other.ID] || it.Rank <= other.Rank,
				"an item passes a parked one of its key and of a lower rank")
		}
	}
}

// idle checks that nothing could start.
func (r *rink) idle(wait Wait) {
	free := false
	for slot, room := range r.slots {
		free = free || room > r.held(func(it Item) bool { return r.in[it.ID] == slot }) && !r.rejected[slot]
	}
	switch {
	case wait == ForDelay:
		require.True(r.t, r.now.Before(r.d.Again()))
		require.NotEmpty(r.t, r.waiting)
	case !r.shared || !free:
	default:
		for _, it := range r.waiting {
			holds(r.t, r.limits.PerKey > 0 && r.heldOf(it.Key) >= r.limits.PerKey, "an item could start")
		}
	}
}

func (r *rink) step() {
	switch op := rand.IntN(100); {
	case op < 25:
		r.last++
		r.push(Item{ID: r.last, Key: rand.Uint64N(5), Cost: 1 + rand.Int64N(5)})
	case op < 65:
		r.next()
	case op < 85:
		if id := anyOf(r.running); id != 0 {
			it, again := r.running[id], rand.IntN(5) == 0
			r.d.Done(r.in[id], it, again)
			delete(r.running, id)
			delete(r.in, id)
			if again {
				r.retries[id] = it
			}
		}
	case op < 90:
		if id := anyOf(r.retries); id != 0 {
			it := r.retries[id]
			delete(r.retries, id)
			r.push(it)
		}
	case op < 95:
		id := anyOf(r.waiting)
		if it, waits := r.waiting[id]; waits {
			require.True(r.t, r.d.Remove(id))
			require.False(r.t, r.d.Remove(id))
			delete(r.waiting, id)
			delete(r.parked, id)
			if rand.IntN(2) == 0 {
				r.push(it)
			}
		}
	case op < 97:
		r.now = r.now.Add(time.Duration(rand.IntN(30)) * time.Millisecond)
	default:
		slot := 1 + rand.IntN(6)
		switch {
		case op == 97 && r.limits.May != nil:
			r.rejected[slot] = !r.rejected[slot]
		case r.slots[slot] > 0:
			r.d.Leave(slot)
			delete(r.slots, slot)
		default:
			r.slots[slot] = 1 + rand.IntN(3)
			r.d.Join(Slot{ID: slot, Cap: r.slots[slot]})
		}
	}
	for len(r.waiting) > 100 {
		id := anyOf(r.waiting)
		r.d.Remove(id)
		delete(r.waiting, id)
		delete(r.parked, id)
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
	for _, policy := range []string{"fifo", "round-robin", "least-busy", "keyed", "topic", "longest-first"} {
		for range 20 {
			limits := Limits{PerKey: rand.IntN(4), Delay: time.Duration(rand.IntN(2)*rand.IntN(10)) * time.Millisecond}
			if rand.IntN(2) == 0 {
				limits.May = func(int) bool { return true }
			}
			r := newRink(t, policy, limits)
			for range 1000 {
				r.step()
			}
			r.drain()
		}
	}
}

// drain has all that waits start.
func (r *rink) drain() {
	clear(r.rejected)
	if len(r.slots) == 0 {
		r.slots[1] = 1
		r.d.Join(Slot{ID: 1})
	}
	for id := range r.retries {
		r.d.Remove(id)
	}
	for range 100_000 {
		if len(r.waiting)+len(r.running) == 0 {
			require.Empty(r.t, r.d.gates)
			require.Empty(r.t, r.d.called)
			return
		}
		r.now = r.now.Add(10 * time.Millisecond)
		r.next()
		if id := anyOf(r.running); id != 0 {
			r.d.Done(r.in[id], r.running[id], false)
			delete(r.running, id)
		}
	}
	require.Fail(r.t, "something waits for ever")
}

// Once it has grown, nothing is allocated for an item, and keys are forgotten.
func TestDispatcherMemory(t *testing.T) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{PerKey: 2, Parked: func(uint64, bool) {}})
	for id := range 4 {
		d.Join(Slot{ID: id + 1})
	}
	id := uint64(0)
	turn := func() {
		for range 8 {
			id++
			d.Push(Item{ID: id, Key: (id - 1) / 8, Cost: 1})
		}
		for n := 0; n < 8; {
			it, slot, _ := d.Next(time.Time{})
			it2, slot2, _ := d.Next(time.Time{})
			require.Zero(t, func() int { _, s, _ := d.Next(time.Time{}); return s }())
			d.Done(slot, it, false)
			d.Done(slot2, it2, false)
			n += 2
		}
	}
	turn()
	require.Zero(t, testing.AllocsPerRun(1000, turn))
	require.Empty(t, d.gates)
	require.Len(t, d.spare, 1)
}
