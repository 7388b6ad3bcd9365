package core

import (
	"crew/runner/decide/task"
	"crew/sched"
)

// caps holds the limits by name.
type caps struct {
	list      []task.Cap
	units     map[string][]string // of these limits
	held      map[unit]bool       // by attempts
	fromHosts bool                // other names are offered by hosts, where their units are given out
}

// unit is a unit of a limit.
type unit struct{ limit, name string }

func rateOf(r task.Rate) sched.Rate { return sched.NewRate(r.N, r.Period, r.Burst) }

// claim returns the claim of a task, or nil if it needs just one place. It fails if the task needs
// more than there is.
func (c *caps) claim(t *task.Task) (*sched.Claim, error) {
	if t.Asked == nil || t.Asked.Weight <= 1 && len(t.Asked.Needs) == 0 {
		return nil, nil
	}
	if err := task.CheckNeeds(c.list, t.Asked.Needs, c.fromHosts); err != nil {
		return nil, err
	}
	return &sched.Claim{Places: max(t.Asked.Weight, 1), Units: t.Asked.Needs}, nil
}

// takeUnits gives an attempt the units that its task needs, the first ones that are free.
func (c *caps) takeUnits(e *entry) {
	if e.item.Claim == nil {
		return
	}
	for _, u := range e.item.Claim.Units {
		given := task.Units{Name: u.Name}
		for _, name := range c.units[u.Name] {
			if unit := (unit{u.Name, name}); len(given.Held) < u.N && !c.held[unit] {
				c.held[unit], given.Held = true, append(given.Held, name)
			}
		}
		if given.Held != nil {
			e.units = append(e.units, given)
		}
	}
}

// returnUnits gives back the units of an attempt.
func (c *caps) returnUnits(e *entry) {
	for _, u := range e.units {
		for _, name := range u.Held {
			delete(c.held, unit{u.Name, name})
		}
	}
	e.units = nil
}
