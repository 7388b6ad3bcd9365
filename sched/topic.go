package sched

import "slices"

// byTopic lets each topic have items on a number of its own of places. The places themselves
// are shared: an item takes one in the slot that holds the fewest. The rank of an item counts
// within its topic. Of the topics that may have one more place, the one that has waited longest
// since it was served is next.
//
// Listed topics have places in proportion to the slots they ask for; slots that none asks for are
// those of the rest ("*"), if there is one. Automatic topics are those with an item. Each has one
// place, and the others go where items wait: at once while they are spare, otherwise in proportion,
// anew each time that as many items have started as there are places. If there are more topics than
// places, each topic has one in turn.
//
// A topic whose key has been the label of a slot is bound from then on: it has places only in
// slots with that label, which serve it first. Other topics prefer slots without labels of topics.
type byTopic struct {
	slots
	store
	auto   bool
	topics map[uint64]*topic // by key
	list   []*topic          // in order, the rest last
	rest   *topic            // nil if other keys are refused
	places int               // in the slots that are in
	due    int               // the sum of what the topics may have
	ready  heap[*topic]      // those with an item that may have one more place, and then those that may if it is spare; of each, bound ones first, by turn
	turn   int64             // counts services and arrivals
	since  int               // the services since the places were divided
	on     [][]uint64        // by slot: the keys of the items that it holds
	labels map[uint64]int    // the places in slots with a label, for those seen that may name topics; nil without any
	spare  spares[topic]
}

// topic is a key, or all those that are not listed, with a number of places.
type topic struct {
	key   uint64
	bound bool // it has places in slots with the label key alone
	queue queue
	held  int // places in the slots that are in
	asked int // the slots that it is listed with
	may   int // the places it may have
	most  int // and could have in any case; only less than all if it is bound
	turn  int64

	index, ready, share int // in the list, and in heaps
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{slots: newSlots(), auto: topics.Auto, topics: map[uint64]*topic{}}
	for _, t := range topics.List {
		p.enter(t.Key).asked = t.Workers
	}
	if topics.Rest > 0 {
		p.rest = &topic{asked: topics.Rest, index: len(p.list)}
		p.list = append(p.list, p.rest)
	}
	return p
}

// enter adds a topic.
func (p *byTopic) enter(key uint64) *topic {
	t := p.spare.take()
	*t = topic{queue: t.queue, key: key, index: len(p.list)}
	_, t.bound = p.labels[key]
	p.list, p.topics[key] = append(p.list, t), t
	return t
}

// of returns the topic that has the items of a key. It is nil if they are refused.
func (p *byTopic) of(key uint64) *topic {
	t := p.topics[key]
	switch {
	case t != nil:
	case p.auto:
		t = p.enter(key)
		p.limit(t)
		t.may = min(1, t.most)
		p.due += t.may
		if other := slices.MaxFunc(p.list, func(a, b *topic) int { return a.may - b.may }); p.due > p.places && other.may > 1 {
			other.may--
			p.due--
			p.refresh(other)
		}
	default:
		t = p.rest
	}
	return t
}

// limit notes how many places a topic could have.
func (p *byTopic) limit(t *topic) {
	if t.most = p.places; t.bound {
		t.most = p.labels[t.key]
	}
}

// divide divides the places among the topics: one to each, the others one by one to the topic
// with the highest ratio of what it asks for to what it has and one more (the D'Hondt method).
func (p *byTopic) divide() {
	p.changed, p.since, p.places, p.due = false, 0, 0, 0
	spare := len(p.ids) // slots that no topic asks for
	for l := range p.labels {
		p.labels[l] = 0
	}
	for _, id := range p.ids {
		at := &p.all[id]
		p.places += max(at.Cap, at.held)
		for i, l := range at.Labels {
			if _, known := p.labels[l]; known && !slices.Contains(at.Labels[:i], l) {
				p.labels[l] += at.Cap
			}
		}
	}
	for _, t := range p.list {
		spare -= t.asked
		p.limit(t)
		t.may = min(1, t.most)
		p.due += t.may
	}
	var shares heap[*topic]
	update := func(t *topic) {
		asked, most := t.asked, t.most
		switch {
		case p.auto:
			asked = t.queue.len() + t.held
			most = min(most, asked)
		case t == p.rest:
			asked += max(spare, 0)
		}
		if t.may < most {
			shares.update(t, &t.share, order{-(int64(asked) << 24) / int64(t.may+1), int64(t.index)})
		} else {
			shares.remove(&t.share)
		}
	}
	for _, t := range p.list {
		update(t)
	}
	for ; p.due < p.places && shares.len() > 0; p.due++ {
		t := shares.min()
		t.may++
		update(t)
	}
	for _, t := range slices.Clone(p.list) {
		t.share = 0
		p.refresh(t)
	}
}

// update divides the places anew if slots have joined or left.
func (p *byTopic) update() {
	if p.changed {
		p.divide()
	}
}

// refresh updates what is known of a topic after anything about it has changed.
func (p *byTopic) refresh(t *topic) {
	if left := t.queue.len() + t.held; p.auto && t.may > left {
		p.due -= t.may - left
		t.may = left
	}
	spare, free := int64(0), int64(1)
	if t.held >= t.may {
		spare = 1
	}
	if t.bound {
		free = 0
	}
	if t.queue.len() > 0 && (spare == 0 || p.auto && t.may < t.most) {
		p.ready.update(t, &t.ready, order{spare, free, t.turn})
	} else {
		p.ready.remove(&t.ready)
	}
	if p.auto && t.queue.len()+t.held == 0 {
		last := p.list[len(p.list)-1]
		p.list[t.index], last.index = last, t.index
		p.list = p.list[:len(p.list)-1]
		delete(p.topics, t.key)
		p.spare.put(t)
	}
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
	if best != nil && best.held >= best.may && p.due >= p.places {
		return nil
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
	if t.held == t.may { // it takes a spare one
		t.may++
		p.due++
	}
	p.turn++
	t.turn = p.turn
	p.Take(slot, it)
	if p.since++; p.since >= p.places {
		p.changed = p.auto && len(p.list) <= p.places
	}
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
	c.None = t.bound && t.most == 0
	c.Idle = slot > 0 && t.held < t.may && p.all[slot].held == 0
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
		if t := p.topics[l]; t != nil || p.auto {
			if p.labels == nil {
				p.labels = map[uint64]int{}
			}
			if p.labels[l] = 0; t != nil {
				t.bound = true
			}
		}
	}
	p.count(s.ID, 1)
}

func (p *byTopic) Leave(id int) {
	p.slots.Leave(id)
	p.count(id, -1)
}

// count notes that what a slot holds counts or, if by is -1, does not.
func (p *byTopic) count(slot, by int) {
	for _, key := range p.on[slot] {
		p.holds(key, by)
	}
}
