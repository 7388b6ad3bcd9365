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
	grouped
	auto   bool
	list   []*group        // the listed ones; the last has key 0 if it is the rest
	labels map[uint64]bool // those that slots have had
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{grouped: newGrouped(), auto: topics.Auto, labels: map[uint64]bool{}}
	p.id, p.place = p.of, p.order
	list := topics.List
	if topics.Rest > 0 {
		list = append(slices.Clip(list), Topic{Workers: topics.Rest})
	}
	for _, t := range list { // key 0 is that of the rest
		g := &group{id: t.Key, asked: t.Workers}
		p.groups[g.id] = g
		p.list = append(p.list, g)
	}
	return p
}

// of returns the topic of an item.
func (p *byTopic) of(it Item) uint64 {
	if !p.auto && p.groups[it.Key] == nil {
		return 0
	}
	return it.Key
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
		most[i] = p.places(t.id)
		t.may = min(1, most[i])
		left -= t.may
		spare -= t.asked
	}
	for ; left > 0; left-- {
		var best *group
		ratio := 0.0
		for i, t := range p.list {
			asked := t.asked
			if t.id == 0 {
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

// order returns the order of a topic among those that may have one more place: of two that wait
// as much for it, a bound one first.
func (p *byTopic) order(t *group) (slot int, class, share, turn int64) {
	if !p.auto && t.held >= t.may {
		return 0, 0, 0, 0
	}
	if !p.labels[t.id] {
		class = 1
	}
	if p.auto && t.held > 0 {
		class += 2
		share = -int64(t.queue.len()+t.held) << 24 / int64(t.held+1)
	}
	return 0, class, share, t.turn
}

func (p *byTopic) Push(it Item) bool {
	if !p.auto && p.groups[p.of(it)] == nil {
		return false
	}
	return p.push(p.enter(&it), &it)
}

// may reports whether a slot may serve the topic of a key.
func (p *byTopic) may(key uint64, slot int) bool {
	return !p.labels[key] || slices.Contains(p.all[slot].Labels, key)
}

func (p *byTopic) peek(slot int) *entry {
	for _, e := range p.ready[0].items[p.ready[0].head:] {
		if p.may(e.group.id, slot) {
			return e.group.queue.min()
		}
	}
	return nil
}

func (p *byTopic) Take(slot int, it Item) {
	p.slots.Take(slot, it)
	p.holds(&it, 1)
}

// holds notes that the topic of an item holds one place more or, if by is -1, less.
func (p *byTopic) holds(it *Item, by int) {
	t := p.enter(it)
	t.held += by
	p.refresh(t)
}

func (p *byTopic) Done(slot int, it Item, again bool) {
	p.changed = p.all[slot].held > p.all[slot].Cap
	p.slots.Done(slot, it, again)
	p.holds(&it, -1)
}

func (p *byTopic) fits(it *Item, slot int) bool {
	t := p.groups[p.of(*it)]
	return p.auto && p.may(it.Key, slot) || t != nil && t.held < t.may && p.may(t.id, slot)
}

func (p *byTopic) Choice(it Item) Choice {
	named := p.groups[it.Key] != nil
	return Choice{Key: named, None: named && p.labels[it.Key] && p.places(it.Key) == 0}
}

func (p *byTopic) Join(s Slot) {
	p.slots.Join(s)
	for _, l := range s.Labels {
		p.labels[l] = true
		t := p.groups[l]
		if t != nil {
			p.refresh(t)
		}
		p.all[s.ID].last = p.all[s.ID].last || p.auto || t != nil
	}
}
