package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is a policy written as naively as can be: what it is told it keeps in
// slices and it looks through them anew each time.
type model interface {
	push(it Item)
	// next is the item that an idle worker gets.
	next(worker int) (Item, bool)
	pop(worker int, it Item)
	done(worker int, it Item, again bool)
	remove(id uint64)
	resize(workers int)
}

// driver makes random steps against a policy and holds it against a model.
type driver struct {
	t       require.TestingT
	n       func(int) int // random number below its argument
	p       Policy
	m       model
	keys    int
	queued  map[uint64]Item
	awaited map[uint64]Item
	running map[int]Item
	workers int
	last    uint64
	ended   int // items that went through, or were removed
	maxIn   int
}

func newDriver(t require.TestingT, n func(int) int, p Policy, m model, workers, keys int) *driver {
	return &driver{t: t, n: n, p: p, m: m, keys: keys, workers: workers, maxIn: 60,
		queued: map[uint64]Item{}, awaited: map[uint64]Item{}, running: map[int]Item{}}
}

func anyOf[K comparable, V any](n func(int) int, m map[K]V, less func(a, b K) int) K {
	ids := make([]K, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, less)
	return ids[n(len(ids))]
}

// holds is require.True without its cost where it holds, which in a million
// steps would be most of the time.
func holds(t require.TestingT, ok bool, format string, args ...any) {
	if !ok {
		require.Fail(t, fmt.Sprintf(format, args...))
	}
}

func byID(a, b uint64) int  { return int(int64(a) - int64(b)) }
func byNumber(a, b int) int { return a - b }

func (d *driver) step() {
	switch k := d.n(100); {
	case k < 35:
		d.push()
	case k < 60:
		d.popReady()
	case k < 65:
		d.popAny(1 + d.n(d.workers+2))
	case k < 90:
		d.finish()
	case k < 94:
		d.pushAgain()
	case k < 97:
		d.remove()
	case k < 99:
	default:
		d.resize(1 + d.n(9))
	}
	d.check()
}

func (d *driver) push() {
	if len(d.queued) >= d.maxIn {
		return
	}
	d.last++
	it := Item{ID: d.last, Key: Hash(string(rune('a' + d.n(d.keys)))), Cost: int64(1 + d.n(5))}
	d.queued[it.ID] = it
	d.p.Push(it)
	if d.m != nil {
		d.m.push(it)
	}
}

func (d *driver) pushAgain() {
	if len(d.awaited) == 0 {
		return
	}
	it := d.awaited[anyOf(d.n, d.awaited, byID)]
	delete(d.awaited, it.ID)
	d.queued[it.ID] = it
	d.p.Push(it)
	if d.m != nil {
		d.m.push(it)
	}
}

// popReady starts what can start on one worker.
func (d *driver) popReady() bool {
	w := d.p.Ready()
	if w == 0 {
		return false
	}
	_, busy := d.running[w]
	holds(d.t, !busy, "worker %d is ready, but busy", w)
	holds(d.t, d.popAny(w), "worker %d is ready, but there is nothing for it", w)
	return true
}

func (d *driver) popAny(w int) bool {
	it, ok := d.p.Pop(w)
	if _, busy := d.running[w]; busy || w > d.workers {
		holds(d.t, !ok, "worker %d is busy or no more", w)
		return false
	}
	if d.m != nil {
		want, wok := d.m.next(w)
		holds(d.t, wok == ok, "worker %d: model has %v", w, want)
		if ok {
			holds(d.t, want == it, "worker %d: %v instead of %v", w, it, want)
			d.m.pop(w, it)
		}
	}
	if !ok {
		return false
	}
	holds(d.t, d.queued[it.ID] == it, "%v was not queued, or doubled", it)
	delete(d.queued, it.ID)
	d.running[w] = it
	return true
}

func (d *driver) finish() {
	if len(d.running) > 0 {
		d.finishOn(anyOf(d.n, d.running, byNumber), d.n(10) == 0)
	}
}

func (d *driver) finishOn(w int, again bool) {
	it := d.running[w]
	delete(d.running, w)
	d.p.Done(w, it, again)
	if d.m != nil {
		d.m.done(w, it, again)
	}
	if again {
		d.awaited[it.ID] = it
	} else {
		d.ended++
	}
}

func (d *driver) remove() {
	id := uint64(1 + d.n(int(d.last)+1))
	if len(d.queued) > 0 && d.n(3) > 0 {
		id = anyOf(d.n, d.queued, byID)
	} else if len(d.awaited) > 0 && d.n(2) > 0 {
		id = anyOf(d.n, d.awaited, byID)
	}
	_, queued := d.queued[id]
	_, awaited := d.awaited[id]
	holds(d.t, d.p.Remove(id) == queued, "remove %d", id)
	if queued || awaited {
		delete(d.queued, id)
		delete(d.awaited, id)
		d.ended++
		if d.m != nil {
			d.m.remove(id)
		}
	}
}

func (d *driver) resize(n int) {
	d.workers = n
	d.p.Resize(n)
	if d.m != nil {
		d.m.resize(n)
	}
}

func (d *driver) check() {
	holds(d.t, d.p.Len() == len(d.queued), "%d queued instead of %d", d.p.Len(), len(d.queued))
	b := d.p.Longest()
	holds(d.t, b.N > 0 == (len(d.queued) > 0), "longest: %v", b)
	if b.N > 0 {
		it, ok := d.queued[b.ID]
		holds(d.t, ok && (!b.OneKey || b.Key == it.Key), "longest: %v", b)
	}
	if d.m == nil {
		return
	}
	able := 0
	for w := d.workers; w > 0; w-- {
		if _, busy := d.running[w]; !busy {
			if _, ok := d.m.next(w); ok {
				able = w
			}
		}
	}
	holds(d.t, d.p.Ready() == able, "worker %d is ready, not %d", d.p.Ready(), able)
}

// drain runs everything to its end: nothing may be left.
func (d *driver) drain() {
	for rounds := 0; len(d.queued)+len(d.running)+len(d.awaited) > 0; rounds++ {
		for len(d.awaited) > 0 {
			d.pushAgain()
		}
		for d.popReady() {
		}
		require.NotEmpty(d.t, d.running, "nothing runs and %d are queued", len(d.queued))
		d.finishOn(anyOf(d.n, d.running, byNumber), false)
		d.check()
	}
	require.Equal(d.t, int(d.last), d.ended, "lost or doubled")
}

var policies = []struct {
	name  string
	make  func(workers int) Policy
	model func(workers int) model
}{
	{"fifo", func(n int) Policy { return NewFIFO(n) }, func(int) model { return &naiveFIFO{} }},
	{"round-robin", func(n int) Policy { return NewRoundRobin(n) }, func(n int) model { return &naiveRoundRobin{n: n} }},
	{"least-busy", func(n int) Policy { return NewLeastBusy(n) }, newNaiveLeastBusy},
	{"keyed", func(n int) Policy { return NewKeyed(n) }, func(n int) model { return newNaiveKeyed(n) }},
}

func TestPoliciesAgainstModels(t *testing.T) {
	for _, c := range policies {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				workers := rapid.IntRange(1, 9).Draw(t, "workers")
				n := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
				d := newDriver(t, n, c.make(workers), c.model(workers), workers, 5)
				for range rapid.IntRange(0, 60).Draw(t, "steps") {
					d.step()
				}
				d.drain()
			})
		})
	}
}

// steps is the length of the long random runs.
func steps() int {
	if testing.Short() {
		return 20_000
	}
	return 1_000_000
}

func TestPoliciesAgainstModelsLong(t *testing.T) {
	for _, c := range policies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			d := newDriver(t, r.IntN, c.make(4), c.model(4), 4, 8)
			d.maxIn = 25
			for range steps() {
				d.step()
			}
			d.drain()
		})
	}
}
