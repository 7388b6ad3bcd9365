package sched

import "slices"

// checkTeams checks the invariants of a topic policy.
func (d *driver) checkTeams(p *byTopic) {
	t, n := d.t, len(d.w.ids)
	p.update()
	holds(t, p.made <= 60, "%d teams made", p.made)
	var held [61]int // by order of the team
	for _, id := range d.w.ids {
		held[p.stations[id].team.order] += d.d.slots[id].held
	}
	due, queued := 0, 0
	for i, m := range p.teams {
		holds(t, m.index == i, "index")
		holds(t, m.held == held[m.order], "%d held, not %d", m.held, held[m.order])
		holds(t, m.ready > 0 == (m.n > 0 && m.idle.len() > 0), "ready")
		holds(t, !m.needs() || m.needy, "a claim is not listed")
		due += m.want
		queued += m.n
	}
	holds(t, due == p.due && due <= n, "%d due, not %d", p.due, due)
	holds(t, queued == p.n && p.spare.n == 0, "%d queued, not %d", p.n, queued)
	holds(t, p.spare.held == held[p.spare.order], "%d held by spare slots", p.spare.held)
	holds(t, p.due == 0 || len(p.teams) <= n, "shared")
	holds(t, !p.auto || !p.shared() || p.dormant.len() == 0, "a dormant topic was not forgotten")
	for _, id := range d.w.ids {
		st := p.stations[id]
		m, holding := st.team, d.d.slots[id].held
		holds(t, m.load.items[st.load-1].x == st, "slot %d is not in its team", id)
		holds(t, st.idle > 0 == (holding < d.w.cap(id)), "slot %d holds %d", id, holding)
		if holding == 0 && m.surplus() && m.n == 0 {
			holds(t, !p.sought(st), "slot %d is idle and another topic has a claim to it", id)
		}
		fits := func(u *team) bool { return !d.bound[u.key] || slices.Contains(d.w.slots[id].Labels, u.key) }
		holds(t, fits(m), "slot %d is in a team whose label it lacks", id)
		for _, u := range p.teams {
			starves := u.n > 0 && u.have() == 0 && fits(u) && (u.bound || m.surplus())
			holds(t, !starves || m.n > 0 || holding > 0, "slot %d is idle and another topic starves", id)
			holds(t, u.bound == d.bound[u.key], "bound")
		}
	}
	for _, h := range d.running {
		if d.w.in(h.slot) && d.w.joins[h.slot] == h.joins {
			m := p.stations[h.slot].team
			holds(t, m == p.team(h.Key) || m == p.spare, "slot %d holds an item of another team", h.slot)
		}
	}
}
