package sched

import "slices"

// team is a topic, or all topics that share slots, with the slots that work for
// it.
type team struct {
	pool
	key   uint64
	named bool // key is its topic; false for the rest and for the spare slots
	bound bool // only slots with the label key can work for it
	needy bool // the policy has it in that list
	order int  // in which teams were made, for ties

	// how many slots it is due
	want   int // 0 for every team while there are fewer slots than teams
	weight int // its share: the slots it asked for, or the items it has outstanding
	limit  int // the most it may be due, but one in any case
	most   int // how many can work for it: if bound, those with the label that are in, else math.MaxInt

	// where the policy keeps it
	index                 int // in teams
	ready, dormant, share int // positions in heaps
}

// have returns how many slots work for it, idle or not.
func (t *team) have() int { return t.load.len() }

// needs reports whether it has a claim to a slot: it has fewer than it is due,
// or none at all and items to run, and there are slots for it.
func (t *team) needs() bool {
	return t.have() < t.want || t.have() == 0 && t.n > 0 && t.most > 0
}

// surplus reports whether one of its slots may go to another team.
func (t *team) surplus() bool { return t.have() > t.want }

// apportion divides n slots among the teams: one to each while they last, the
// others one by one to the team with the highest weight/(want+1), up to its limit
// (the D'Hondt method). If the weights sum up to n, each team gets its weight.
// apportion returns how many slots are left.
func (p *byTopic) apportion(n int) int {
	var shares heap[*team]
	update := func(t *team) {
		// More slots than items would only be kept from other automatic teams.
		if t.weight > 0 && t.want < min(t.limit, t.most) && (!p.auto || t.want < t.weight) {
			quotient := int64(t.weight) << 24 / int64(t.want+1) // fixed point
			shares.update(t, &t.share, -quotient, int64(t.order))
		} else {
			shares.remove(&t.share)
		}
	}
	for _, t := range p.teams {
		t.want, t.share = min(n, 1, t.most), 0
		n -= t.want
		update(t)
	}
	for n > 0 && shares.len() > 0 {
		t := shares.min()
		t.want++
		n--
		update(t)
	}
	return n
}

// divide sets how many slots each team is due.
func (p *byTopic) divide() {
	n, sum := len(p.ids), 0
	p.due = 0
	for _, t := range p.teams {
		t.want = 0
		if p.auto {
			t.weight = t.n + t.held
		}
		sum += t.weight
	}
	switch {
	case p.shared():
	case p.rest != nil && n > sum:
		p.due = n
		for _, t := range p.teams {
			t.want = min(t.weight, t.most)
			n -= t.want
		}
		p.rest.want += n
	default:
		p.due = n - p.apportion(n)
	}
}

// deal takes surplus slots away from their teams, the highest IDs first, and
// gives the spare ones to the teams in their order. Only slots that hold nothing
// move.
func (p *byTopic) deal() {
	if p.labels != nil {
		p.dealLabelled()
	} else {
		p.dealPlain()
	}
	for _, t := range p.teams {
		p.refresh(t)
	}
	p.meetClaims()
}

// dealPlain does the work of deal where no slot has a label.
func (p *byTopic) dealPlain() {
	for _, id := range slices.Backward(p.ids) {
		if p.movable(id) {
			p.move(p.stations[id], p.spare)
		}
	}
	for _, t := range p.teams {
		for t.have() < t.want && p.spare.idle.len() > 0 {
			st := p.spare.idle.min()
			if st.running > 0 {
				break
			}
			p.move(st, t)
		}
	}
}

// movable reports whether a slot may go to another team. While teams share slots,
// a slot for which its team has an item takes that item first.
func (p *byTopic) movable(id int) bool {
	t := p.stations[id].team
	return p.all[id].held == 0 && t.surplus() && (!p.shared() || t.n == 0)
}

// move makes a slot one of another team.
func (p *byTopic) move(st *station, to *team) {
	from := st.team
	if from == to {
		return
	}
	st.team = to
	from.leave(st)
	p.refresh(from)
	to.join(st)
	p.refresh(to)
}
