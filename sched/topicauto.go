package sched

import "slices"

// Balance divides the slots among automatic topics by what each has
// outstanding, queued and running.
func (p *byTopic) Balance(most func(key uint64) int) {
	p.update()
	if !p.auto || p.shared() {
		return
	}
	for _, t := range p.teams {
		t.limit = most(t.key)
	}
	p.divide()
	p.deal()
}

// extend makes an automatic team due one more slot, if it has more items than
// its slots can take at once and some slots are not due to any team.
func (p *byTopic) extend(t *team) {
	if p.auto && !p.shared() && p.due < len(p.ids) && t.want < min(t.limit, t.most) &&
		t.n > t.idle.len() && t.have() >= t.want {
		t.want++
		p.due++
	}
}

// discover returns a team for a key without one. If there would be more teams
// than slots, the team that has been dormant for the longest time is reused.
func (p *byTopic) discover(key uint64) *team {
	if len(p.teams) >= len(p.ids) && p.dormant.len() > 0 {
		t := p.dormant.min()
		delete(p.topics, t.key)
		p.name(t, key)
		if p.labels != nil {
			p.expel()
			p.divide()
			p.deal()
		}
		return t
	}
	t := p.enrol()
	p.name(t, key)
	switch {
	case p.labels != nil:
		p.divide()
		p.deal()
	case p.shared():
		if p.due > 0 {
			p.divide()
		}
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
// teams than slots, so memory does not grow with the number of keys ever seen.
func (p *byTopic) forget(t *team) {
	if !p.shared() || t.dormant == 0 {
		return
	}
	p.drop(t)
	if !p.shared() {
		p.divide()
		p.deal()
	}
}

// drop removes a team with nothing outstanding. Its slots become spare.
func (p *byTopic) drop(t *team) {
	for t.idle.len() > 0 {
		p.move(t.idle.min(), p.spare)
	}
	p.dormant.remove(&t.dormant)
	delete(p.topics, t.key)
	last := len(p.teams) - 1
	p.teams[t.index], p.teams[last].index = p.teams[last], t.index
	p.teams = p.teams[:last]
	t.want = 0
	p.unused.put(t)
}
