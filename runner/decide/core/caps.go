package core

import (
	"crew/runner/decide/task"
	"crew/sched"
)

// caps holds the limits by name.
type caps struct {
	list []task.Cap
	held [][]bool // for each limit, the units that attempts hold

	fromHosts bool           // other names are offered by hosts, where their units are given out
	names     map[string]int // index of each name: the names in list come first, and then the names of hosts
}

func rateOf(r task.Rate) sched.Rate { return sched.NewRate(r.N, r.Period, r.Burst) }

// index returns the index of a name. A new name gets an index after list, since only hosts can
// offer it.
func (c *caps) index(name string) int {
	i, known := c.names[name]
	if !known {
		i = len(c.names)
		c.names[name] = i
	}
	return i
}

// stock returns the units that a host offers. All slots with the same offers share them.
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
		if i := caps.index(need.Name) - len(caps.list); i >= 0 { // otherwise the run's own limit counts
			all = append(all, make([]int, max(0, i+1-len(all)))...)
			all[i] = need.N
		}
	}
	return sched.NewStock(all)
}

// hostNeeds returns the needs that hosts supply.
func (c *caps) hostNeeds(needs []task.Need) (list []task.Need) {
	for _, n := range needs {
		if c.index(n.Name) >= len(c.list) {
			list = append(list, n)
		}
	}
	return list
}

// claim returns the claim of a task, or nil if it needs just one place. It fails if the task needs
// more than there is.
func (c *caps) claim(t *task.Task) (*sched.Claim, error) {
	if t.Asked == nil || t.Asked.Weight <= 1 && len(t.Asked.Needs) == 0 {
		return nil, nil
	}
	if err := task.CheckNeeds(c.list, t.Asked.Needs, c.fromHosts); err != nil {
		return nil, err
	}
	claim := &sched.Claim{Places: max(t.Asked.Weight, 1)}
	for _, n := range t.Asked.Needs {
		claim.Units = append(claim.Units, sched.Units{Limit: c.index(n.Name), N: n.N})
	}
	return claim, nil
}

// takeUnits gives an attempt the units that its task needs, the first ones that are free.
func (c *caps) takeUnits(e *entry) {
	if e.item.Claim == nil {
		return
	}
	for _, u := range e.item.Claim.Units {
		if u.Limit >= len(c.list) {
			continue
		}
		limit := &c.list[u.Limit]
		units := make([]string, 0, u.N)
		for i := 0; len(units) < u.N; i++ {
			if held := &c.held[u.Limit][i]; !*held {
				*held, units = true, append(units, limit.Units[i])
			}
		}
		e.units = append(e.units, task.Units{Name: limit.Name, Held: units})
	}
}

// returnUnits gives back the units of an attempt.
func (c *caps) returnUnits(e *entry) {
	for _, u := range e.units {
		limit := c.index(u.Name)
		for i, left := 0, u.Held; len(left) > 0; i++ { // both are in the same order
			if c.list[limit].Units[i] == left[0] {
				c.held[limit][i], left = false, left[1:]
			}
		}
	}
	e.units = nil
}
