package sched

import "slices"

// byTopic gives each topic a number of places. Topics do not own particular places: an item takes
// one in the slot with the fewest items. Ranks count within a topic only.
//
// Listed topics have places in proportion to the slots that they ask for, but at least one. Slots
// that no topic asks for belong to the rest ("*"), if it is listed. Of the topics that may have
// another place, the one that was served longest ago is next.
//
// With auto, every key with an item is a topic. A topic without a place is next, in turn; after
// that, the topic with the highest ratio of its items to its places plus one. So each topic has a
// place, and the other places go where items wait, in proportion.
//
// A topic whose key has ever been the label of a slot is bound: it has places only in slots with
// that label, and these serve it first. Other topics prefer slots without labels of topics.
type byTopic struct {
	grouped
	auto   bool
	listed []*group        // the last one has key 0 if it is the rest
	labels map[uint64]bool // all that slots have had
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{grouped: newGrouped(), auto: topics.Auto, labels: map[uint64]bool{}}
	p.groupOf, p.orderOf = p.topicOf, p.topicOrder
	list := topics.List
	if topics.Rest > 0 {
		list = append(slices.Clip(list), Topic{Workers: topics.Rest})
	}
	for _, t := range list { // the rest has key 0
		g := &group{id: t.Key, workers: t.Workers}
		p.groups[g.id] = g
		p.listed = append(p.listed, g)
	}
	return p
}

// topicOf returns the topic of an item, as a key.
func (p *byTopic) topicOf(it *Item) uint64 {
	if !p.auto && p.groups[it.Key] == nil {
		return 0
	}
	return it.Key
}

// capacityFor returns how many places there are in slots that may serve a topic, including places
// that items still hold in slots that have left.
func (p *byTopic) capacityFor(key uint64) (n int) {
	for id := range p.byID {
		if p.mayServe(key, id) {
			n += max(p.byID[id].Places, p.byID[id].held)
		}
	}
	return n
}

// settle divides the places among the listed topics: one for each, and the others one by one to the
// topic with the highest ratio of the slots that it asks for to its places plus one (the D'Hondt
// method).
func (p *byTopic) settle() {
	left, spare := p.capacityFor(0), len(p.ids) // slots that no topic asks for
	most := make([]int, len(p.listed))
	for i, t := range p.listed {
		most[i] = p.capacityFor(t.id)
		t.quota = min(1, most[i])
		left -= t.quota
		spare -= t.workers
	}
	for ; left > 0; left-- {
		var best *group
		ratio := 0.0
		for i, t := range p.listed {
			asked := t.workers
			if t.id == 0 {
				asked += max(spare, 0)
			}
			if r := float64(asked) / float64(t.quota+1); t.quota < most[i] && r > ratio {
				best, ratio = t, r
			}
		}
		if best == nil {
			break
		}
		best.quota++
	}
	for _, t := range p.listed {
		p.refresh(t)
	}
}

// topicOrder returns the order of a topic among the topics that may have another place: its class, its
// share and its turn; zeros if it may not. Bound topics go before others that wait alike.
func (p *byTopic) topicOrder(t *group) (slot int, at order) {
	if !p.auto && t.held >= t.quota {
		return 0, at
	}
	at[2] = t.turn
	if !p.labels[t.id] {
		at[0] = 1
	}
	if p.auto && t.held > 0 {
		at[0] += 2
		at[1] = -int64(t.queue.len()+t.held) << 24 / int64(t.held+1)
	}
	return 0, at
}

func (p *byTopic) Push(it *Item) bool {
	if !p.auto && p.groups[p.topicOf(it)] == nil {
		return false
	}
	return p.push(p.enter(it), it)
}

// mayServe reports whether a slot may serve a topic.
func (p *byTopic) mayServe(key uint64, slot int) bool {
	return !p.labels[key] || slices.Contains(p.byID[slot].Labels, key)
}

func (p *byTopic) peek(slot int) *Item {
	for _, next := range p.ready[0].items[p.ready[0].head:] {
		if p.mayServe(next.group.id, slot) {
			return next.group.queue.first()
		}
	}
	return nil
}

func (p *byTopic) Take(slot int, it *Item) {
	p.slots.Take(slot, it)
	p.countHeld(it, 1)
}

// countHeld notes that the topic of an item holds one more place or, if by is -1, one less.
func (p *byTopic) countHeld(it *Item, by int) {
	t := p.enter(it)
	t.held += by
	p.refresh(t)
}

func (p *byTopic) Done(slot int, it *Item, again bool) {
	p.changed = p.byID[slot].held > p.byID[slot].Places
	p.slots.Done(slot, it, again)
	p.countHeld(it, -1)
}

func (p *byTopic) fits(it *Item, slot int) bool {
	id := p.topicOf(it)
	return p.mayServe(id, slot) && (p.auto || p.groups[id].held < p.groups[id].quota)
}

func (p *byTopic) Choice(it *Item) Choice {
	id := p.topicOf(it)
	return Choice{Key: id == it.Key, None: p.labels[id] && p.capacityFor(id) == 0}
}

func (p *byTopic) Join(s Slot) {
	p.slots.Join(s)
	for _, l := range s.Labels {
		p.labels[l] = true
		t := p.groups[l]
		if t != nil {
			p.refresh(t)
		}
		p.byID[s.ID].servedLast = p.byID[s.ID].servedLast || p.auto || t != nil
	}
}
