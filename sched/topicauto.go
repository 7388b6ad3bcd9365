package sched

import "math"

// Balance shares the workers of automatic topics out by what each topic has
// outstanding, queued and running; it does nothing to listed ones. It is meant
// to be called once a second. A topic for which bound is true, whose items are
// limited by the processors, gets no more workers than procs; a nil bound is
// true for none.
func (p *ByTopic) Balance(procs int, bound func(key uint64) bool) {
	if !p.auto || p.shared {
		return
	}
	for _, t := range p.teams {
		t.limit = math.MaxInt
		if bound != nil && bound(t.key) {
			t.limit = max(procs, 1)
		}
	}
	p.divide()
	p.deal()
}

// extend makes an automatic team that has more to do than its idle workers can
// take due one more, where there are workers that nobody is due.
func (p *ByTopic) extend(t *team) {
	if p.auto && !p.shared && p.due < p.slots.n && t.want < t.limit &&
		t.n > t.idle.Len() && t.have() >= t.want {
		t.want++
		p.due++
	}
}

// discover makes a team for a key seen for the first time. Where that would be
// one more than there are workers, it replaces the one that has had nothing to
// do for the longest time.
func (p *ByTopic) discover(key uint64) *team {
	if len(p.teams) >= p.slots.n && p.dormant.Len() > 0 {
		t := p.dormant.Min()
		delete(p.topics, t.key)
		p.name(t, key)
		return t
	}
	t := p.newTeam()
	p.name(t, key)
	p.enrol(t)
	if p.shared {
		t.want = 0
		return t
	}
	if len(p.teams) > p.slots.n {
		p.divide()
		return t
	}
	t.want = 1
	p.due++
	if p.due > p.slots.n {
		var most *team
		for _, o := range p.teams {
			if most == nil || o.want > most.want {
				most = o
			}
		}
		most.want--
		p.due--
	}
	return t
}

func (p *ByTopic) name(t *team, key uint64) {
	t.key, t.named, t.limit = key, true, math.MaxInt
	p.topics[key] = t
}

// forget drops an automatic team with nothing outstanding while there are more
// teams than workers, so that memory does not grow with the keys ever seen.
func (p *ByTopic) forget(t *team) {
	if !p.auto || !p.shared || t.dormant == 0 {
		return
	}
	p.drop(t)
	if len(p.teams) <= p.slots.n {
		p.divide()
		p.deal()
	}
}

// drop forgets a team; its workers are nobody's then.
func (p *ByTopic) drop(t *team) {
	for t.idle.Len() > 0 {
		p.move(t.idle.Min().worker, p.spare)
	}
	p.dormant.Remove(t)
	delete(p.topics, t.key)
	last := len(p.teams) - 1
	p.teams[t.slot], p.teams[last].slot = p.teams[last], t.slot
	p.teams = p.teams[:last]
	t.want = 0
	p.unused = append(p.unused, t)
}
