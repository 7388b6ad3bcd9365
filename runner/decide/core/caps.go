package core

import (
	"crew/runner/decide/task"
	"crew/sched"
)

// caps are the limits by name.
type caps struct {
	list   []task.Cap
	held   [][]bool // of each, whether an attempt holds a unit
	claims map[claimKey]*sched.Claim

	hosts bool           // names of no limit are those of hosts, whose units are given out there
	names map[string]int // the index of each limit; those of hosts come behind
}

// claimKey is what a task claims. Tasks that need the same mostly share the list.
type claimKey struct {
	weight int
	needs  *task.Need // the first one
}

// maxClaims bounds the claims that are remembered, so that tasks share them.
const maxClaims = 1 << 14

func rateOf(r task.Rate) sched.Rate { return sched.NewRate(r.N, r.Period, r.Burst) }

// index returns the index of a limit, which is one of hosts if there is no other.
func (c *caps) index(name string) int {
	i, known := c.names[name]
	if !known {
		i = len(c.names)
		c.names[name] = i
	}
	return i
}

// stock returns what a host offers, which is shared by all slots with these offers.
func (c *Core) stock(o *task.Offers) *sched.Stock {
	if o == nil {
		return nil
	}
	for _, at := range c.pool.slots {
		if at.latest != nil && at.latest.Offers == o {
			return at.stock
		}
	}
	all, caps := []int{}, &c.queue.caps
	for _, need := range *o {
		if i := caps.index(need.Name) - len(caps.list); i >= 0 { // or else the run's own limit counts
			all = append(all, make([]int, max(0, i+1-len(all)))...)
			all[i] = need.N
		}
	}
	return sched.NewStock(all)
}

// hostNeeds returns those needs that are of hosts.
func (c *caps) hostNeeds(needs []task.Need) (list []task.Need) {
	for _, n := range needs {
		if c.index(n.Name) >= len(c.list) {
			list = append(list, n)
		}
	}
	return list
}

// claim returns what a task claims, or nil for a place of a slot alone. The error is that it
// needs what there is not.
func (c *caps) claim(t *task.Task) (*sched.Claim, error) {
	if t.Asked == nil || t.Asked.Weight <= 1 && len(t.Asked.Needs) == 0 {
		return nil, nil
	}
	w := claimKey{weight: max(t.Asked.Weight, 1)}
	if needs := t.Asked.Needs; len(needs) > 0 {
		w.needs = &needs[0]
	}
	claim := c.claims[w]
	if claim != nil {
		return claim, nil
	}
	if err := task.CheckNeeds(c.list, t.Asked.Needs, c.hosts); err != nil {
		return nil, err
	}
	claim = &sched.Claim{Places: w.weight}
	for _, n := range t.Asked.Needs {
		claim.Units = append(claim.Units, sched.Units{Cap: c.index(n.Name), N: n.N})
	}
	if len(c.claims) >= maxClaims {
		clear(c.claims)
	}
	c.claims[w] = claim
	return claim, nil
}

// takeUnits has an attempt hold the units that its task needs, those first that come first.
func (c *caps) takeUnits(e *entry) {
	if e.item.Claim == nil {
		return
	}
	for _, u := range e.item.Claim.Units {
		if u.Cap >= len(c.list) {
			continue
		}
		limit := &c.list[u.Cap]
		units := make([]string, 0, u.N)
		for i := 0; len(units) < u.N; i++ {
			if held := &c.held[u.Cap][i]; !*held {
				*held, units = true, append(units, limit.Units[i])
			}
		}
		e.units = append(e.units, task.Units{Name: limit.Name, Held: units})
	}
}

// returnUnits gives back the units that an attempt holds.
func (c *caps) returnUnits(e *entry) {
	for _, u := range e.units {
		limit := c.index(u.Name)
		for i, left := 0, u.Held; len(left) > 0; i++ { // in the same order
			if c.list[limit].Units[i] == left[0] {
				c.held[limit][i], left = false, left[1:]
			}
		}
	}
	e.units = nil
}
