package sched

import "slices"

// byTopic lets each topic have items on a number of its own of places. The places themselves
// are shared: an item takes one in the slot that holds the fewest. The rank of an item counts
// within its topic.
//
// Listed topics have places in proportion to the slots they ask for, at least one; slots that none
// asks for are those of the rest ("*"), if there is one. Of the topics that may have one more place,
// the one that has waited longest since it was served is next.
//
// Automatic topics are those with an item. Each that has no place is next, in turn, and then the
// one with the highest ratio of the items that it has to its places and one more: so each has
// one, and the others go where items wait, in proportion.
//
// A topic whose key has been the label of a slot is bound from then on: it has places only in
// slots with that label, which serve it first. Other topics prefer slots without labels of topics.
type byTopic struct {
	slots
	store
	auto   bool
	topics map[uint64]*topic // by key
	list   []*topic          // the listed ones, the rest last
	rest   *topic            // nil if other keys are refused
	ready  heap[*topic]      // those with an item that may have one more place; see order
	turn   int64             // counts services and arrivals
	on     [][]uint64        // by slot: the keys of the items that it holds
	labels map[uint64]bool   // those seen that may name topics; nil without any
	spare  spares[topic]
}

// topic is a key, or all those that are not listed.
type topic struct {
	key   uint64
	bound bool // it has places in slots with the label key alone
	queue queue
	held  int // places in the slots that are in
	turn  int64
	pos   int // in the heap

	// if listed

	asked int // the slots that it is listed with
	may   int // the places it may have
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{slots: newSlots(), auto: topics.Auto, topics: map[uint64]*topic{}}
	for _, t := range topics.List {
		p.topics[t.Key] = &topic{key: t.Key, asked: t.Workers}
		p.list = append(p.list, p.topics[t.Key])
	}
	if topics.Rest > 0 {
		p.rest = &topic{asked: topics.Rest}
		p.list = append(p.list, p.rest)
	}
	return p
}

// of returns the topic that has the items of a key. It is nil if they are refused.
func (p *byTopic) of(key uint64) *topic {
	t := p.topics[key]
	switch {
	case t != nil:
	case p.auto:
		t = p.spare.take()
		*t = topic{queue: t.queue, key: key, bound: p.labels[key]}
		p.topics[key] = t
	default:
		t = p.rest
	}
	return t
}

// places returns how many places there are in slots that may serve a topic.
func (p *byTopic) places(t *topic) (n int) {
	for _, id := range p.ids {
		if p.fits(t, id) {
			n += max(p.all[id].Cap, p.all[id].held)
		}
	}
	return n
}

// update divides the places anew if slots have joined or left: one to each listed topic, the
// others one by one to the topic with the highest ratio of what it asks for to what it has and
// one more (the D'Hondt method).
func (p *byTopic) update() {
	if !p.changed {
		return
	}
	p.changed = false
	left, spare := p.places(&topic{}), len(p.ids) // slots that no topic asks for
	most, asked := make([]int, len(p.list)), make([]int, len(p.list))
	for i, t := range p.list {
		most[i], asked[i] = p.places(t), t.asked
		t.may = min(1, most[i])
		left -= t.may
		spare -= t.asked
	}
	if p.rest != nil {
		asked[len(asked)-1] += max(spare, 0)
	}
	for best := 0; left > 0 && best >= 0; left-- {
		best = -1
		for i, t := range p.list {
			if t.may < most[i] && (best < 0 || asked[i]*(p.list[best].may+1) > asked[best]*(t.may+1)) {
				best = i
			}
		}
		if best >= 0 {
			p.list[best].may++
		}
	}
	for _, t := range p.list {
		p.refresh(t)
	}
}

// refresh updates what is known of a topic after anything about it has changed.
func (p *byTopic) refresh(t *topic) {
	if t.queue.len() > 0 && (p.auto || t.held < t.may) {
		p.ready.update(t, &t.pos, p.order(t))
	} else {
		p.ready.remove(&t.pos)
	}
	if p.auto && t.queue.len()+t.held == 0 {
		delete(p.topics, t.key)
		p.spare.put(t)
	}
}

// order returns the order of a topic among those that may have one more place: of two that wait
// as much for it, a bound one first.
func (p *byTopic) order(t *topic) order {
	o := order{0, 0, t.turn}
	if !t.bound {
		o[0] = 1
	}
	if p.auto && t.held > 0 {
		o[0] += 2
		o[1] = -int64(t.queue.len()+t.held) << 24 / int64(t.held+1)
	}
	return o
}

func (p *byTopic) Push(it Item) bool {
	p.update()
	t := p.of(it.Key)
	if t == nil {
		return false
	}
	if t.queue.len() == 0 {
		p.turn++
		t.turn = p.turn
	}
	p.add(&t.queue, &it)
	p.refresh(t)
	return true
}

// next returns the topic that a slot serves next, or nil; any slot without labels, if that is 0.
func (p *byTopic) next(slot int) (best *topic) {
	var first *order
	for i := range p.ready.items {
		x := &p.ready.items[i]
		if p.fits(x.x, slot) && (best == nil || x.less(first)) {
			best, first = x.x, &x.order
		}
		if p.labels == nil {
			break
		}
	}
	return best
}

// fits reports whether a slot may serve a topic.
func (p *byTopic) fits(t *topic, slot int) bool {
	return !t.bound || slices.Contains(p.all[slot].Labels, t.key)
}

func (p *byTopic) Ready() int {
	p.update()
	if p.labels == nil && p.next(0) == nil {
		return 0
	}
	return p.emptiest(func(slot int) bool { return p.next(slot) != nil })
}

// emptiest returns the slot that holds the fewest items of those that have room and may serve
// something, without labels of topics if there is one; 0 if there is none.
func (p *byTopic) emptiest(may func(slot int) bool) (slot int) {
	if p.labels == nil {
		return p.slots.emptiest()
	}
	special := false
	for _, id := range p.ids {
		if !p.hasRoom(id) || !may(id) {
			continue
		}
		is := slices.ContainsFunc(p.all[id].Labels, func(l uint64) bool { return p.topics[l] != nil })
		if slot == 0 || special && !is || special == is && p.all[id].held < p.all[slot].held {
			slot, special = id, is
		}
	}
	return slot
}

func (p *byTopic) Pop(slot int) (it Item, ok bool) {
	p.update()
	if !p.hasRoom(slot) {
		return it, false
	}
	t := p.next(slot)
	if t == nil {
		return it, false
	}
	it = p.cut(t.queue.min())
	p.turn++
	t.turn = p.turn
	p.Take(slot, it)
	return it, true
}

func (p *byTopic) Take(slot int, it Item) {
	p.update()
	p.slots.Take(slot, it)
	p.on[slot] = append(p.on[slot], it.Key)
	p.holds(it.Key, 1)
}

// holds notes that a topic holds one place more or, if by is -1, less.
func (p *byTopic) holds(key uint64, by int) {
	t := p.of(key)
	t.held += by
	p.refresh(t)
}

func (p *byTopic) Done(slot int, it Item, again bool) {
	p.update()
	p.slots.Done(slot, it, again)
	i := slices.Index(p.on[slot], it.Key)
	p.on[slot] = slices.Delete(p.on[slot], i, i+1)
	at := &p.all[slot]
	if at.Cap > 0 {
		p.holds(it.Key, -1)
	}
	p.changed = p.changed || at.held >= at.Cap // it has joined with less room than it needed
}

func (p *byTopic) Choice(it Item) (c Choice) {
	p.update()
	t := p.topics[it.Key]
	if c.Key = t != nil; t == nil {
		t = p.rest
	}
	if t == nil {
		return c
	}
	slot := p.emptiest(func(id int) bool { return p.fits(t, id) })
	c.None = t.bound && p.places(t) == 0
	c.Idle = slot > 0 && (p.auto || t.held < t.may) && p.all[slot].held == 0
	return c
}

func (p *byTopic) Remove(id uint64) bool {
	p.update()
	e := p.find(id)
	if e == nil {
		return false
	}
	t := p.of(e.Key)
	p.cut(e)
	p.refresh(t)
	return true
}

func (p *byTopic) Join(s Slot) {
	p.slots.Join(s)
	for len(p.on) <= s.ID {
		p.on = append(p.on, nil)
	}
	for _, l := range s.Labels {
		t := p.topics[l]
		if t == nil && !p.auto {
			continue
		}
		if p.labels == nil {
			p.labels = map[uint64]bool{}
		}
		if p.labels[l] = true; t != nil {
			t.bound = true
			p.refresh(t)
		}
	}
	p.counts(s.ID, 1)
}

func (p *byTopic) Leave(id int) {
	p.slots.Leave(id)
	p.counts(id, -1)
}

// counts notes that what a slot holds counts or, if by is -1, does not.
func (p *byTopic) counts(slot, by int) {
	for _, key := range p.on[slot] {
		p.holds(key, by)
	}
}
