package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const maxSlot = 9

// world models what a policy knows about slots.
type world struct {
	slots [maxSlot + 1]Slot // by ID; the ID of a slot that is not in is 0
	held  [maxSlot + 1]int
	joins [maxSlot + 1]int // how often each has joined
	ids   []int            // of the slots that are in, ascending
}

func (w *world) in(id int) bool   { return id > 0 && id <= maxSlot && w.slots[id].ID != 0 }
func (w *world) cap(id int) int   { return max(w.slots[id].Cap, 1) }
func (w *world) room(id int) bool { return w.in(id) && w.held[id] < w.cap(id) }

// model is a naive implementation of a policy: it keeps everything in slices and
// searches them each time.
type model interface {
	push(it Item)
	// next returns the item that a slot with free capacity gets.
	next(slot int) (Item, bool)
	pop(slot int, it Item)
	done(slot int, it Item, again bool)
	remove(id uint64)
	// change is called after a slot has joined or left.
	change(slot int)
	// before reports whether a is served before b, which has a higher ID.
	before(a, b int) bool
}

type holding struct {
	slot  int
	joins int // of the slot when it took the item
	Item
}

// driver takes random steps with a policy and compares it with a model.
type driver struct {
	t     require.TestingT
	n     func(int) int // a random number below its argument
	p     Policy
	m     model // may be nil
	w     *world
	local bool // slots 1..N of this host, with capacity 1; the highest leave first

	keys    []uint64
	labels  int               // how many of the keys are labels of slots
	named   func(uint64) bool // whether a key is a topic
	bound   map[uint64]bool   // topics that were labels of slots
	maxIn   int
	queued  []Item
	awaited []Item
	running []holding
	last    uint64
	ended   int // items that were finished or removed
}

func newDriver(t require.TestingT, n func(int) int, c modelled, local bool) *driver {
	p, err := New(Config{Name: c.name, Topics: topics(t, c.topics)})
	require.NoError(t, err)
	list := topics(t, c.topics)
	d := &driver{
		t: t, n: n, p: p, w: &world{}, local: local && c.labels == 0, maxIn: 1 + n(40), labels: c.labels, bound: map[uint64]bool{},
		named: func(key uint64) bool {
			return c.name == "topic" && (list.Auto || slices.ContainsFunc(list.List, func(t Topic) bool { return t.Key == key }))
		},
	}
	if c.model != nil {
		d.m = c.model(d.w)
	}
	for i := range c.keys {
		d.keys = append(d.keys, Hash(string(rune('a'+i))))
	}
	d.resize(1 + n(maxSlot))
	return d
}

// holds is require.True, but nearly free if ok is true: with require, a run of a
// million steps would spend most of its time here.
func holds(t require.TestingT, ok bool, format string, args ...any) {
	if !ok {
		require.Fail(t, fmt.Sprintf(format, args...))
	}
}

func byID(a, b Item) int { return int(int64(a.ID) - int64(b.ID)) }

func indexOf(items []Item, id uint64) int {
	return slices.IndexFunc(items, func(it Item) bool { return it.ID == id })
}

// cut removes element i of a slice and does not keep the order.
func cut[T any](s *[]T, i int) T {
	x := (*s)[i]
	(*s)[i] = (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return x
}

func (d *driver) step() {
	switch k := d.n(100); {
	case k < 35:
		d.push()
	case k < 60:
		d.popReady()
	case k < 65:
		d.pop(d.n(maxSlot + 3))
	case k < 89:
		if len(d.running) > 0 {
			d.finish(d.n(len(d.running)), d.n(10) == 0)
		}
	case k < 93:
		d.pushAgain()
	case k < 95:
		d.remove()
	case k < 96:
		d.rerank()
	case k < 98:
		d.change()
	case k < 99:
		d.balance()
	case d.n(20) == 0:
		d.maxIn = 1 + d.n(40)
	}
	d.check()
}

func (d *driver) push() {
	if len(d.queued) >= d.maxIn {
		return
	}
	it := Item{ID: d.last + 1, Key: d.keys[d.n(len(d.keys))], Cost: int64(1 + d.n(5)), Rank: d.rank()}
	it.Place = placeOf(it.Key)
	d.last++
	d.pushItem(it)
}

// rank returns a rank for an item, mostly 0.
func (d *driver) rank() int64 {
	if d.n(100) >= 15 {
		return 0
	}
	return []int64{-3 * HandRank, -2, -1, 1, 2, 3 * HandRank}[d.n(6)]
}

// pushAgain pushes an awaited item, sometimes with another rank.
func (d *driver) pushAgain() {
	if len(d.awaited) == 0 {
		return
	}
	it := cut(&d.awaited, d.n(len(d.awaited)))
	if d.n(4) == 0 {
		it.Rank = d.rank()
	}
	d.pushItem(it)
}

// rerank gives a queued item another rank.
func (d *driver) rerank() {
	if len(d.queued) == 0 {
		return
	}
	it := cut(&d.queued, d.n(len(d.queued)))
	holds(d.t, d.p.Remove(it.ID), "remove %v", it)
	if d.m != nil {
		d.m.remove(it.ID)
	}
	it.Rank = int64(d.n(7)-3) * []int64{1, HandRank}[d.n(2)]
	d.pushItem(it)
}

func (d *driver) pushItem(it Item) {
	holds(d.t, d.p.Push(it), "%v refused", it)
	d.queued = append(d.queued, it)
	if d.m != nil {
		d.m.push(it)
	}
}

// balance calls Balance with a limit for one key.
func (d *driver) balance() {
	key, most := d.keys[d.n(len(d.keys))], d.n(3)
	d.p.Balance(func(k uint64) int {
		if k == key {
			return most
		}
		return math.MaxInt
	})
}

// popReady starts an item if one can start.
func (d *driver) popReady() bool {
	slot := d.p.Ready()
	if slot == 0 {
		return false
	}
	choices := map[uint64]Choice{}
	for _, it := range d.queued {
		choices[it.ID] = d.p.Choice(it)
	}
	holds(d.t, d.pop(slot), "slot %d is ready, but there is nothing for it", slot)
	it := d.running[len(d.running)-1].Item
	c := choices[it.ID]
	holds(d.t, !c.Idle || d.w.held[slot] == 1, "slot %d takes %v although another one holds nothing", slot, it)
	holds(d.t, !c.None && (c.Slot == 0 || c.Slot == slot), "slot %d takes %v in spite of %v", slot, it, c)
	return true
}

func (d *driver) pop(slot int) bool {
	it, ok := d.p.Pop(slot)
	if !d.w.room(slot) {
		holds(d.t, !ok, "slot %d has no room for %v", slot, it)
		return false
	}
	if d.m != nil {
		want, wok := d.m.next(slot)
		holds(d.t, wok == ok && want == it, "slot %d: %v, not %v", slot, it, want)
	}
	if !ok {
		return false
	}
	i := indexOf(d.queued, it.ID)
	holds(d.t, i >= 0 && d.queued[i] == it, "%v was not queued", it)
	holds(d.t, !d.bound[it.Key] || slices.Contains(d.w.slots[slot].Labels, it.Key), "slot %d lacks the label of %v", slot, it)
	if topic, ok := d.p.(*byTopic); ok {
		for _, o := range d.queued {
			holds(d.t, it.Rank <= o.Rank || topic.team(it.Key) != topic.team(o.Key), "%v goes before %v", it, o)
		}
	}
	cut(&d.queued, i)
	d.running = append(d.running, holding{slot, d.w.joins[slot], it})
	d.w.held[slot]++
	if d.m != nil {
		d.m.pop(slot, it)
	}
	return true
}

func (d *driver) finish(i int, again bool) {
	h := cut(&d.running, i)
	d.w.held[h.slot]--
	d.p.Done(h.slot, h.Item, again)
	if d.m != nil {
		d.m.done(h.slot, h.Item, again)
	}
	if again {
		d.awaited = append(d.awaited, h.Item)
	} else {
		d.ended++
	}
}

func (d *driver) remove() {
	id := uint64(1 + d.n(int(d.last)+1))
	if len(d.queued) > 0 && d.n(3) > 0 {
		id = d.queued[d.n(len(d.queued))].ID
	} else if len(d.awaited) > 0 && d.n(2) > 0 {
		id = d.awaited[d.n(len(d.awaited))].ID
	}
	queued, awaited := indexOf(d.queued, id), indexOf(d.awaited, id)
	holds(d.t, d.p.Remove(id) == (queued >= 0), "remove %d", id)
	if queued >= 0 {
		cut(&d.queued, queued)
	} else if awaited >= 0 {
		cut(&d.awaited, awaited)
	} else {
		return
	}
	d.ended++
	if d.m != nil {
		d.m.remove(id)
	}
}

// change lets slots join or leave; sometimes all leave.
func (d *driver) change() {
	if d.local {
		d.resize(1 + d.n(maxSlot))
	} else if d.n(20) == 0 {
		for len(d.w.ids) > 0 {
			d.leave(d.w.ids[d.n(len(d.w.ids))])
		}
	} else if id := 1 + d.n(maxSlot); d.w.in(id) {
		d.leave(id)
	} else {
		d.join(Slot{ID: id, Host: uint64(d.n(3)), Cap: d.n(5), Labels: d.someLabels()})
	}
}

// someLabels returns labels for a slot, mostly one or none.
func (d *driver) someLabels() (labels []uint64) {
	for d.labels > 0 && d.n(2) == 0 {
		labels = append(labels, d.keys[d.n(d.labels)])
	}
	return labels
}

// resize lets slots join or leave so that 1..n are in.
func (d *driver) resize(n int) {
	for len(d.w.ids) < n {
		d.join(Slot{ID: len(d.w.ids) + 1})
	}
	for id := len(d.w.ids); id > n; id-- {
		d.leave(id)
	}
}

func (d *driver) join(s Slot) {
	d.w.slots[s.ID] = s
	d.w.joins[s.ID]++
	for _, l := range s.Labels {
		d.bound[l] = d.named(l)
	}
	d.p.Join(s)
	d.changed(s.ID)
}

func (d *driver) leave(id int) {
	d.w.slots[id].ID = 0
	d.p.Leave(id)
	d.changed(id)
}

func (d *driver) changed(id int) {
	d.w.ids = d.w.ids[:0]
	for id := range d.w.slots {
		if d.w.in(id) {
			d.w.ids = append(d.w.ids, id)
		}
	}
	if d.m != nil {
		d.m.change(id)
	}
}

func (d *driver) check() {
	holds(d.t, d.p.Len() == len(d.queued), "%d queued instead of %d", d.p.Len(), len(d.queued))
	if d.m == nil {
		return
	}
	first := 0
	for _, id := range d.w.ids {
		if d.w.room(id) && (first == 0 || !d.m.before(first, id)) {
			if _, ok := d.m.next(id); ok {
				first = id
			}
		}
	}
	holds(d.t, d.p.Ready() == first, "slot %d is ready, not %d", d.p.Ready(), first)
}

// drain runs all items to their end. Nothing may be left.
func (d *driver) drain() {
	if d.w.in(3) {
		d.leave(3)
	}
	d.join(Slot{ID: 3, Labels: d.keys[:d.labels]}) // nothing waits for a label in vain
	for len(d.queued)+len(d.running)+len(d.awaited) > 0 {
		for len(d.awaited) > 0 {
			d.pushAgain()
		}
		for d.popReady() {
		}
		require.NotEmpty(d.t, d.running, "nothing runs and %d are queued", len(d.queued))
		d.finish(d.n(len(d.running)), false)
		d.check()
	}
	require.Equal(d.t, int(d.last), d.ended, "lost or doubled")
}

// modelled is a policy under test, with its model if there is one.
type modelled struct {
	name, topics string
	keys, labels int
	model        func(*world) model
}

var policies = []modelled{
	{"fifo", "auto", 8, 0, func(w *world) model { return &naiveFIFO{w: w} }},
	{"longest-first", "auto", 8, 0, func(w *world) model { return &naiveByCost{naiveFIFO{w: w}, -1} }},
	{"shortest-first", "auto", 8, 0, func(w *world) model { return &naiveByCost{naiveFIFO{w: w}, 1} }},
	{"round-robin", "auto", 8, 0, func(w *world) model { return &naiveRoundRobin{naiveFIFO{w: w}} }},
	{"least-busy", "auto", 8, 0, func(w *world) model { return &naiveLeastBusy{w: w} }},
	{"keyed", "auto", 8, 0, func(w *world) model { return &naiveKeyed{w: w} }},
	{"fair", "auto", 8, 0, func(w *world) model { return &naiveFair{naiveFIFO: naiveFIFO{w: w}} }},
	{"topic", "a=1,b=2,c=3,d=1,e=1", 5, 0, nil},
	{"topic", "a=2,b=1,*=3", 5, 0, nil},
	{"topic", "*=4", 5, 0, func(w *world) model { return &naiveLeastBusy{w: w} }},
	{"topic", "auto", 12, 0, nil},
	{"least-busy", "auto", 8, 3, func(w *world) model { return &naiveLeastBusy{w: w} }},
	{"topic", "a=1,b=2,c=3,d=1,e=1", 5, 3, nil},
	{"topic", "a=2,b=1,*=3", 5, 3, nil},
	{"topic", "*=4", 5, 3, func(w *world) model { return &naiveLeastBusy{w: w} }},
	{"topic", "auto", 12, 4, nil},
}

// drive takes steps and then drains. After each step it checks the teams of a
// topic policy.
func (d *driver) drive(steps int) {
	topic, _ := d.p.(*byTopic)
	for range steps {
		d.step()
		if topic != nil {
			checkTeams(d, topic)
		}
	}
	d.drain()
}

func TestPoliciesRandom(t *testing.T) {
	for _, c := range policies {
		t.Run(fmt.Sprint(c.name, " ", c.topics, " ", c.labels), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
				d := newDriver(t, n, c, n(2) == 0)
				d.drive(n(60))
			})
		})
	}
}

// steps is the length of the long random runs. CREW_SOAK makes them 25 times as long.
func steps() int {
	switch {
	case os.Getenv("CREW_SOAK") != "":
		return 1_000_000
	case testing.Short():
		return 20_000
	}
	return 40_000
}

func TestPoliciesRandomLong(t *testing.T) {
	for _, c := range policies {
		t.Run(fmt.Sprint(c.name, " ", c.topics, " ", c.labels), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			newDriver(t, r.IntN, c, true).drive(steps() / 4)
			newDriver(t, r.IntN, c, false).drive(steps() * 3 / 4)
		})
	}
}
