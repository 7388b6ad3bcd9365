package core

import (
	"cmp"
	"slices"
	"time"

	"crew/sched"
)

// With Pool.Ahead, a slot of another machine gets its next attempts while one still runs there.
// An attempt that waits at its slot counts as started only when its turn comes. The core asks
// for it back if it could start elsewhere, or should no longer start at all.

// longAfter is how long an attempt runs until it counts as long. Nothing is sent to wait behind a
// long attempt, and attempts that wait there already are asked back.
const longAfter = time.Second

// freePlaces returns how many more attempts could run now.
func (c *Core) freePlaces() int {
	if c.pool.aheadMax > 0 {
		return c.pool.idle
	}
	return c.pool.capacity - c.queue.ready.Held()
}

// recallAhead asks for attempts back that wait at their slots: all of them if nothing more may
// start; those behind a long attempt, which it checks every longAfter; and otherwise one for each
// idle slot that could run it, those last in line first.
func (c *Core) recallAhead() {
	p := &c.pool
	all, looks, idle := c.end.phase > going || c.paused(), c.reached(p.recheckAt), p.idle
	if c.output.full() || c.queue.blockedBy != sched.ForSlot {
		idle = 0
	}
	if p.recheckAt.IsZero() || idle == 0 && !all && !looks {
		return
	}
	if looks {
		p.recheckAt = time.Time{}
	}
	type waiting struct {
		*entry
		at int // index in the slot
	}
	var list []waiting
	for _, at := range p.slots {
		for i, e := range at.attempts {
			if !e.sentAhead() {
				continue
			}
			if looks {
				p.recheckAt = c.run.Add(longAfter)
			}
			switch {
			case e.recalled:
				idle--
			case all, looks && c.run.Sub(at.attempts[0].begunRun) >= longAfter:
				c.recallOne(e)
			case c.fitsElsewhere(e):
				list = append(list, waiting{e, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return cmp.Or(b.at-a.at, cmp.Compare(a.item.ID, b.item.ID)) })
	for _, w := range list[:min(len(list), max(idle, 0))] {
		c.recallOne(w.entry)
	}
}

// fitsElsewhere reports whether an attempt that waits at its slot could begin in an idle one.
func (c *Core) fitsElsewhere(e *entry) bool {
	at := c.queue.ready.Free(&e.item)
	return at > 0 && len(c.pool.slots[at].attempts) == 0
}

// recallOne asks, once, for the return of an attempt that waits at its slot, unless it is being ended.
func (c *Core) recallOne(e *entry) {
	if e.sentAhead() && !e.recalled && !e.asked {
		e.recalled = true
		c.fx.Recall = append(c.fx.Recall, e.toAttempt())
	}
}
