package sched

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// driver takes random steps with a Dispatcher. Without limits it compares the starts with a model
// of the policy. With limits it checks that the limits hold, and that nothing waits without need.
type driver struct {
	t      *testing.T
	r      *rand.Rand
	d      *Dispatcher
	topic  *byTopic // the policy, if it is a byTopic
	m      model    // may be nil
	w      *slotState
	shared bool // every slot takes every item
	limits
	named  func(uint64) bool // whether a key is a topic
	bound  map[uint64]bool   // topics that have been labels of slots
	keys   []uint64
	labels int // the first keys, which are also labels of slots
	maxIn  int

	now     time.Time
	queued  []*Item // or parked
	parked  map[uint64]bool
	awaited []*Item
	running []holding
	refused bySlot[bool] // slots that AllowSlot refuses
	last    uint64
	ended   int // items that were finished or removed
}

func newDriver(t *testing.T, r *rand.Rand, c modelled, limited bool) *driver {
	list, err := ParseTopics(c.topics)
	require.NoError(t, err)
	p := New(c.name, list)
	d := &driver{
		t: t, r: r, w: &slotState{}, maxIn: 1 + r.IntN(40), labels: c.labels, bound: map[uint64]bool{},
		shared: !slices.Contains([]string{"round-robin", "keyed", "topic"}, c.name), now: time.Unix(1e9, 0), parked: map[uint64]bool{},
		named: func(key uint64) bool {
			return c.name == "topic" && (list.Auto || slices.ContainsFunc(list.List, func(t Topic) bool { return t.Key == key }))
		},
	}
	if limited {
		d.limits = someLimits(r, d.shared)
	} else if c.model != nil {
		d.m = c.model(d.w)
	}
	d.Parked = func(it *Item, parked bool) {
		holds(t, d.parked[it.ID] != parked, "%d was parked: %v", it.ID, parked)
		d.parked[it.ID] = parked
	}
	d.Allow, d.AllowSlot = free.Allow, func(slot int) bool { return !d.refused[slot] }
	d.d = NewDispatcher(p, d.Limits)
	d.topic, _ = p.(*byTopic)
	for i := range c.keys {
		d.keys = append(d.keys, Hash(string(rune('a'+i))))
	}
	for id := range 1 + r.IntN(maxSlot) {
		d.join(Slot{ID: id + 1})
	}
	return d
}

// holds is require.True, but costs almost nothing if ok is true.
func holds(t *testing.T, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		require.Fail(t, fmt.Sprintf(format, args...))
	}
}

func byID(a, b *Item) int { return int(int64(a.ID) - int64(b.ID)) }

func indexOf(items []*Item, id uint64) int {
	return slices.IndexFunc(items, func(it *Item) bool { return it.ID == id })
}

// cut removes element i of a slice, without keeping the order.
func cut[T any](s *[]T, i int) T {
	x := (*s)[i]
	(*s)[i] = (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return x
}

// any removes a random item of a slice. It returns false if the slice is empty.
func (d *driver) any(s *[]*Item) (it *Item, ok bool) {
	if len(*s) == 0 {
		return it, false
	}
	return cut(s, d.r.IntN(len(*s))), true
}

func (d *driver) step() {
	switch k := d.r.IntN(100); {
	case k < 33:
		d.push()
	case k < 62:
		d.next()
	case k < 84:
		if len(d.running) > 0 {
			d.finish(d.r.IntN(len(d.running)), d.r.IntN(10) == 0)
		}
	case k < 88:
		if it, ok := d.any(&d.awaited); ok {
			if d.r.IntN(4) == 0 {
				it.Rank = d.rank()
			}
			d.pushItem(it)
		}
	case k < 90:
		d.remove()
	case k < 91: // a queued item gets another rank
		if it, ok := d.any(&d.queued); ok {
			d.forgetQueued(it)
			it.Rank = int64(d.r.IntN(7)-3) * []int64{1, ManualRank}[d.r.IntN(2)]
			d.pushItem(it)
		}
	case k < 93:
		d.change()
	case k < 95:
		if len(d.granted) > 0 {
			d.reportStarted(d.r.IntN(len(d.granted)))
		}
	case k < 97:
		slot := 1 + d.r.IntN(maxSlot)
		d.refused[slot] = !d.refused[slot] && d.r.IntN(2) == 0
	case k < 99:
		d.now = d.now.Add(time.Duration(d.r.IntN(30)) * time.Millisecond)
	case d.r.IntN(20) == 0:
		d.maxIn = 1 + d.r.IntN(40)
	}
	d.check()
}

func (d *driver) push() {
	if len(d.queued) >= d.maxIn {
		return
	}
	d.last++
	it := &Item{ID: d.last, Key: d.keys[d.r.IntN(len(d.keys))], Cost: int64(1 + d.r.IntN(5)), Rank: d.rank()}
	it.StableKey = placeOf(it.Key)
	if len(d.claims) > 0 {
		it.Claim = d.claims[d.r.IntN(len(d.claims))]
	}
	d.pushItem(it)
}

func (d *driver) rank() int64 {
	if d.r.IntN(100) >= 15 {
		return 0
	}
	return []int64{-3 * ManualRank, -2, -1, 1, 2, 3 * ManualRank}[d.r.IntN(6)]
}

func (d *driver) pushItem(it *Item) {
	holds(d.t, d.d.Push(it), "%v refused", it)
	d.queued = append(d.queued, it)
	if d.m != nil {
		d.m.push(it)
	}
}

// first returns the first slot of the model that is ready, and the first one that may also start; 0
// for none.
func (d *driver) first() (ready, may int) {
	for _, id := range d.w.ids {
		if !d.w.room(id) {
			continue
		}
		if _, ok := d.m.next(id); !ok {
			continue
		}
		if ready == 0 || !d.m.before(ready, id) {
			ready = id
		}
		if !d.refused[id] && (may == 0 || !d.m.before(may, id)) {
			may = id
		}
	}
	return ready, may
}

// next asks for the next item, checks the answer, and reports whether there was one.
func (d *driver) next() bool {
	choices, free := map[uint64]Choice{}, map[uint64]int{}
	for _, it := range d.queued {
		choices[it.ID], free[it.ID] = d.d.Choice(it), d.d.Free(it)
	}
	before, parked := d.d.Held(), maps.Clone(d.parked)
	it, slot, wait := d.d.Next(d.now)
	if d.m != nil {
		_, want := d.first()
		holds(d.t, slot == want, "an item goes to slot %d, not %d", slot, want)
		if slot > 0 {
			want, _ := d.m.next(slot)
			holds(d.t, it == want, "slot %d: %v, not %v", slot, it, want)
			d.m.pop(slot, it)
		}
	}
	if slot == 0 {
		d.checkIdle(wait)
		return false
	}
	i := indexOf(d.queued, it.ID)
	holds(d.t, i >= 0, "%v was not queued", it)
	cut(&d.queued, i)
	d.noteTaken(it, slot, parked[it.ID])
	if c := choices[it.ID]; d.d.limits.Caps == nil && d.refused == (bySlot[bool]{}) {
		holds(d.t, free[it.ID] == 0 || d.limited || d.w.held[slot] == 1 || d.w.held[free[it.ID]] > 0, "slot %d takes %v although another one holds nothing", slot, it)
		holds(d.t, d.limited || !c.None && (c.Slot == 0 || c.Slot == slot), "slot %d takes %v in spite of %v", slot, it, c)
	}
	h := &d.running[len(d.running)-1]
	h.places = d.d.Held() - before
	d.checkStart(h)
	return true
}

// noteTaken notes that a slot has taken a queued item. waited says that the item was parked before, so
// others of its key may have been pushed meanwhile.
func (d *driver) noteTaken(it *Item, slot int, waited bool) {
	holds(d.t, !d.parked[it.ID], "%v is parked", it)
	holds(d.t, d.w.in(slot) && (d.w.room(slot) || d.limited) && !d.refused[slot], "slot %d may take nothing", slot)
	holds(d.t, !d.bound[it.Key] || slices.Contains(d.w.slots[slot].Labels, it.Key), "slot %d lacks the label of %v", slot, it)
	for _, o := range d.queued {
		if d.topic != nil && !d.limited && !d.refused[slot] {
			holds(d.t, it.Rank <= o.Rank || d.topic.topicOf(it) != d.topic.topicOf(o), "%v goes before %v", it, o)
		}
		holds(d.t, waited || !d.d.Serial() || it.Key != o.Key || it.ID < o.ID || o.Rank != it.Rank, "%v goes before %v of its key", it, o)
	}
	for _, h := range d.running {
		holds(d.t, !d.d.Serial() || it.Key != h.Key, "%v starts beside %v of its key", it, h)
	}
	d.w.held[slot]++
	d.running = append(d.running, holding{Item: it, slot: slot, joins: d.w.joins[slot], stock: d.w.slots[slot].Offers})
}

func (d *driver) finish(i int, again bool) {
	h := cut(&d.running, i)
	if i := slices.IndexFunc(d.granted, func(o holding) bool { return o.ID == h.ID }); i >= 0 {
		d.reportStarted(i)
	}
	d.w.held[h.slot]--
	d.d.Done(h.slot, h.Item, again)
	if d.m != nil {
		d.m.done(h.slot, h.Item, again)
	}
	switch {
	case !again:
		d.ended++
	case d.limited && d.r.IntN(2) == 0: // it comes back without having begun
		d.d.Return(h.Item)
		d.queued = append(d.queued, h.Item)
	default:
		d.awaited = append(d.awaited, h.Item)
	}
}

// remove removes a random item that is queued or awaited, if there is one.
func (d *driver) remove() {
	if it, ok := d.any(&d.queued); ok && d.r.IntN(3) > 0 {
		d.forgetQueued(it)
	} else if ok {
		d.queued = append(d.queued, it)
		return
	} else if it, ok = d.any(&d.awaited); ok {
		holds(d.t, !d.d.Remove(it), "%v was not queued", it)
		if d.m != nil {
			d.m.remove(it.ID)
		}
	} else {
		holds(d.t, !d.d.Remove(&Item{ID: d.last + 1}), "it was never pushed")
		return
	}
	d.ended++
}

// forgetQueued removes a queued item.
func (d *driver) forgetQueued(it *Item) {
	holds(d.t, d.d.Remove(it) && !d.d.Remove(it), "remove %d", it.ID)
	delete(d.parked, it.ID)
	if d.m != nil {
		d.m.remove(it.ID)
	}
}

// change lets slots join or leave. Sometimes all leave.
func (d *driver) change() {
	if d.r.IntN(20) == 0 {
		for len(d.w.ids) > 0 {
			d.leave(d.w.ids[0])
		}
	} else if id := 1 + d.r.IntN(maxSlot); d.w.in(id) {
		d.leave(id)
	} else {
		d.join(Slot{ID: id, Host: uint64(d.r.IntN(3)), Places: d.r.IntN(5), Labels: d.someLabels()})
	}
}

func (d *driver) someLabels() (labels []uint64) {
	for d.labels > 0 && d.r.IntN(2) == 0 {
		labels = append(labels, d.keys[d.r.IntN(d.labels)])
	}
	return labels
}

func (d *driver) join(s Slot) {
	s.Offers = d.stocks[s.Host]
	d.w.slots[s.ID] = s
	d.w.joins[s.ID]++
	for _, l := range s.Labels {
		d.bound[l] = d.named(l)
	}
	d.d.Join(s)
	d.changed(s.ID)
}

func (d *driver) leave(id int) {
	d.w.slots[id].ID = 0
	d.d.Leave(id)
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
	for _, it := range d.queued {
		holds(d.t, it.queue != nil && it.queue.items[it.queue.find(it)] == it, "%d is in no queue", it.ID)
	}
	if d.m != nil {
		ready, _ := d.first()
		holds(d.t, d.d.Ready() == ready, "slot %d is ready, not %d", d.d.Ready(), ready)
	}
	if d.topic != nil {
		d.checkTopics(d.topic)
	}
}

// drain runs all items to their ends, after which nothing may be left.
func (d *driver) drain() {
	d.refused = bySlot[bool]{}
	for host := range d.stocks { // so that no item waits for a label, a host or its units forever
		d.join(Slot{ID: maxSlot + 1 + host, Host: uint64(host), Labels: d.keys[:d.labels]})
	}
	for _, it := range slices.Clone(d.queued) {
		if d.widest(it.Claim) == 0 {
			cut(&d.queued, indexOf(d.queued, it.ID))
			d.forgetQueued(it)
			d.ended++
		}
	}
	for it, ok := d.any(&d.awaited); ok; it, ok = d.any(&d.awaited) {
		d.pushItem(it)
	}
	for range 10_000 {
		for d.next() {
			d.check()
		}
		if len(d.queued)+len(d.running) == 0 {
			break
		}
		d.now = d.now.Add(10 * time.Millisecond)
		if len(d.running) > 0 {
			d.finish(d.r.IntN(len(d.running)), false)
			d.check()
		}
	}
	require.Empty(d.t, d.queued, "these items wait forever; running: %v, limits: %+v", d.running, d.Limits)
	require.Equal(d.t, int(d.last), d.ended, "lost or doubled")
	d.d.Next(d.now.Add(time.Hour))
	require.Zero(d.t, len(d.d.byKey)+len(d.d.lines)+d.d.Held(), "something is left over")
}
