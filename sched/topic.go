package sched

import (
	"cmp"
	"slices"
)

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
	auto   bool
	topics map[uint64]*topic // by key
	list   []*topic          // the listed ones, the rest last
	rest   *topic            // nil if other keys are refused
	ready  queue[*topic]     // those with an item that may have one more place; see order
	turn   int64             // counts services and arrivals
	labels map[uint64]bool   // those that slots have had
	spare  spares[topic]
}

// topic is a key, or all those that are not listed.
type topic struct {
	order

	key   uint64 // 0 for those that are not listed
	queue queue[*entry]
	held  int // places
	turn  int64

	// if listed

	asked int // the slots that it is listed with
	may   int // the places it may have
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{slots: newSlots(), auto: topics.Auto, topics: map[uint64]*topic{}, labels: map[uint64]bool{}}
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
		*t = topic{queue: t.queue, key: key}
		p.topics[key] = t
	default:
		t = p.rest
	}
	return t
}

// places returns how many places there are in slots that may serve the topic of a key, with those
// that items have in slots that have left.
func (p *byTopic) places(key uint64) (n int) {
	for id := range p.all {
		if p.may(key, id) {
			n += max(p.all[id].Cap, p.all[id].held)
		}
	}
	return n
}

// settle divides the places anew: one to each listed topic, the
// others one by one to the topic with the highest ratio of what it asks for to what it has and
// one more (the D'Hondt method).
func (p *byTopic) settle() {
	left, spare := p.places(0), len(p.ids) // slots that no topic asks for
	most := make([]int, len(p.list))
	for i, t := range p.list {
		most[i] = p.places(t.key)
		t.may = min(1, most[i])
		left -= t.may
		spare -= t.asked
	}
	for ; left > 0; left-- {
		var best *topic
		ratio := 0.0
		for i, t := range p.list {
			asked := t.asked
			if t == p.rest {
				asked += max(spare, 0)
			}
			if r := float64(asked) / float64(t.may+1); t.may < most[i] && r > ratio {
				best, ratio = t, r
			}
		}
		if best == nil {
			break
		}
		best.may++
	}
	for _, t := range p.list {
		p.refresh(t)
	}
}

// refresh updates what is known of a topic after anything about it has changed.
func (p *byTopic) refresh(t *topic) {
	if t.queue.len() > 0 && (p.auto || t.held < t.may) {
		p.ready.update(t, p.order(t))
	} else {
		p.ready.remove(t)
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
	if !p.labels[t.key] {
		o[0] = 1
	}
	if p.auto && t.held > 0 {
		o[0] += 2
		o[1] = -int64(t.queue.len()+t.held) << 24 / int64(t.held+1)
	}
	return o
}

func (p *byTopic) Push(it Item) bool {
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

// next returns the topic that a slot serves next, or nil.
func (p *byTopic) next(slot int) *topic {
	for _, t := range p.ready.items[p.ready.head:] {
		if p.may(t.key, slot) {
			return t
		}
	}
	return nil
}

// may reports whether a slot may serve the topic of a key.
func (p *byTopic) may(key uint64, slot int) bool {
	return !p.labels[key] || slices.Contains(p.all[slot].Labels, key)
}

func (p *byTopic) peek(slot int) *entry {
	if t := p.next(slot); t != nil {
		return t.queue.min()
	}
	return nil
}

func (p *byTopic) pop(e *entry, served bool) Item {
	t := p.of(e.Key)
	if served {
		p.turn++
		t.turn = p.turn
	}
	it := p.cut(e)
	p.refresh(t)
	return it
}

func (p *byTopic) Take(slot int, it Item) {
	p.slots.Take(slot, it)
	p.holds(it.Key, 1)
}

// holds notes that a topic holds one place more or, if by is -1, less.
func (p *byTopic) holds(key uint64, by int) {
	t := p.of(key)
	t.held += by
	p.refresh(t)
}

func (p *byTopic) Done(slot int, it Item, again bool) {
	p.changed = p.all[slot].held > p.all[slot].Cap
	p.slots.Done(slot, it, again)
	p.holds(it.Key, -1)
}

func (p *byTopic) fits(it *Item, slot int) bool {
	t := cmp.Or(p.topics[it.Key], p.rest)
	return p.auto && p.may(it.Key, slot) || t != nil && t.held < t.may && p.may(t.key, slot)
}

func (p *byTopic) Choice(it Item) Choice {
	named := p.topics[it.Key] != nil
	return Choice{Key: named, None: named && p.labels[it.Key] && p.places(it.Key) == 0}
}

func (p *byTopic) Join(s Slot) {
	p.slots.Join(s)
	for _, l := range s.Labels {
		p.labels[l] = true
		t := p.topics[l]
		if t != nil {
			p.refresh(t)
		}
		p.all[s.ID].last = p.all[s.ID].last || p.auto || t != nil
	}
}
