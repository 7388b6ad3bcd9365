package sched

import "slices"

// Balance shares the slots of automatic topics out by what each topic has
// outstanding, queued and running.
func (p *byTopic) Balance(most func(key uint64) int) {
	p.update()
	if !p.auto || p.shared {
		return
	}
	for _, t := range p.teams {
		t.limit = most(t.key)
	}
	p.divide()
	p.deal()
}

// extend makes an automatic team due one slot more, if it has more to do than
// its slots can take at once and there are slots that no team is due.
func (p *byTopic) extend(t *team) {
	if p.auto && !p.shared && p.due < len(p.ids) && t.want < t.limit &&
		t.n > t.idle.len() && t.have() >= t.want {
		t.want++
		p.due++
	}
}

// discover returns a team for a key without one. If that is one more than there
// are slots, it replaces the team that has had nothing to do for the longest
// time.
func (p *byTopic) discover(key uint64) *team {
	if len(p.teams) >= len(p.ids) && p.dormant.len() > 0 {
		t := p.dormant.min()
		delete(p.topics, t.key)
		p.name(t, key)
		return t
	}
	t := p.enrol()
	p.name(t, key)
	switch {
	case p.shared:
	case len(p.teams) > len(p.ids):
		p.divide()
	case p.due < len(p.ids):
		t.want = 1
		p.due++
	default:
		slices.MaxFunc(p.teams, func(a, b *team) int { return a.want - b.want }).want--
		t.want = 1
	}
	return t
}

// forget drops an automatic team with nothing outstanding while there are more
// teams than slots, so that memory does not grow with the keys ever seen.
func (p *byTopic) forget(t *team) {
	if !p.auto || !p.shared || t.dormant == 0 {
		return
	}
	p.drop(t)
	if len(p.teams) <= len(p.ids) {
		p.divide()
		p.deal()
	}
}

// drop forgets a team with nothing outstanding; its slots are spare then.
func (p *byTopic) drop(t *team) {
	for t.idle.len() > 0 {
		p.move(t.idle.min().id, p.spare)
	}
	p.dormant.remove(t)
	delete(p.topics, t.key)
	last := len(p.teams) - 1
	p.teams[t.index], p.teams[last].index = p.teams[last], t.index
	p.teams = p.teams[:last]
	t.want = 0
	p.unused.put(t)
}
