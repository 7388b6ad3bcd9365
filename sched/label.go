package sched

import "slices"

// count notes that a slot and its labels have joined, or have left if by is -1.
func (p *byTopic) count(id, by int) {
	labels := p.all[id].Labels
	for i, l := range labels {
		t := p.topics[l]
		if t == nil && !p.auto || slices.Contains(labels[:i], l) {
			continue
		}
		if p.labels == nil {
			p.labels = map[uint64]int{}
		}
		p.labels[l] += by
		if t != nil {
			t.bound, t.most = true, p.labels[l]
		}
	}
}

// fits reports whether a slot can work for a team.
func (p *byTopic) fits(t *team, id int) bool {
	return !t.bound || slices.Contains(p.all[id].Labels, t.key)
}

// special reports whether a slot has the label of a topic.
func (p *byTopic) special(id int) bool {
	return slices.ContainsFunc(p.all[id].Labels, func(l uint64) bool { return p.topics[l] != nil })
}

// sought reports whether a team has a claim to the slot of st, once that holds
// nothing.
func (p *byTopic) sought(st *station) bool { return p.claimant(st) >= 0 }

// claimant returns the position in needy of the team that has had a claim to the slot
// of st for the longest time, or -1. Without labels, the slot must be surplus.
func (p *byTopic) claimant(st *station) int {
	if !p.claimed() {
		return -1
	}
	if p.labels == nil {
		return 0
	}
	for i, t := range p.needy {
		if t.needs() && p.mayTake(t, st) {
			return i
		}
	}
	return -1
}

// mayTake reports whether the slot of st may go to t, which has a claim to some slot.
func (p *byTopic) mayTake(t *team, st *station) bool {
	switch from := st.team; {
	case from == t || !p.fits(t, st.id):
		return false
	case from.surplus():
		return true
	case from.bound:
		return t.bound && t.have() == 0 && t.n > 0
	}
	return t.bound
}

// takable returns an idle slot that a team with a claim may take, or 0: one without
// labels of topics, if there is one. A team that would want the slot back at once
// keeps it while it has an item for it.
func (p *byTopic) takable() int {
	if p.labels == nil {
		id := p.levels[0].from(1)
		for id != 0 && !p.movable(id) {
			id = p.levels[0].from(id + 1)
		}
		return id
	}
	special := 0
	for id := p.levels[0].from(1); id != 0; id = p.levels[0].from(id + 1) {
		st := p.stations[id]
		switch {
		case st.team.n > 0 && (p.shared() || st.team.bound) || !p.sought(st):
		case !p.special(id):
			return id
		case special == 0:
			special = id
		}
	}
	return special
}

// expel takes slots away from teams that they do not fit any more, whatever they hold.
func (p *byTopic) expel() {
	if p.labels == nil {
		return
	}
	for _, id := range p.ids {
		if st := p.stations[id]; !p.fits(st.team, id) {
			p.move(st, p.spare)
		}
	}
}

// dealLabelled does the work of deal where slots have labels. It takes those with
// labels of topics also from other teams, which might do without.
func (p *byTopic) dealLabelled() {
	for _, id := range slices.Backward(p.ids) {
		st := p.stations[id]
		if p.movable(id) || p.all[id].held == 0 && !st.team.bound && p.special(id) {
			p.move(st, p.spare)
		}
	}
	p.assign(p.special, func(id int) *team {
		for _, l := range p.all[id].Labels {
			if t := p.topics[l]; t != nil && t.have() < t.want {
				return t
			}
		}
		return nil
	})
	at := 0 // the teams before have what they are due
	other := func(int) *team {
		for ; at < len(p.teams); at++ {
			if t := p.teams[at]; !t.bound && t.have() < t.want {
				return t
			}
		}
		return nil
	}
	p.assign(func(id int) bool { return !p.special(id) }, other)
	p.assign(p.special, other)
}

// assign gives the spare slots of some kind that hold nothing to the teams that take
// them.
func (p *byTopic) assign(kind func(id int) bool, taker func(id int) *team) {
	for _, id := range p.ids {
		st := p.stations[id]
		if st.team != p.spare || p.all[id].held > 0 || !kind(id) {
			continue
		}
		if t := taker(id); t != nil {
			p.move(st, t)
		}
	}
}
