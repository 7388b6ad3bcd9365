package core

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// With Pool.Ahead a slot of another machine is given its next attempts before it asks for them.
// There they wait for their turn, so the core counts them as started only then. Those that
// have not begun are asked back when they could start elsewhere, or are not to start there.

// briefFor is how long the attempt that runs in a slot may have run when another one is sent there, and
// while it waits: so a long task holds up no other.
const longAfter = time.Second

// freePlaces returns how many more attempts could run now.
func (c *Core) freePlaces() int {
	if c.pool.aheadMax > 0 {
		return c.pool.idle
	}
	return c.pool.capacity - c.queue.ready.Held()
}

// recallAhead asks attempts back that wait at slots: all if nothing more is to start, and those behind
// one that is not brief, for which it looks from time to time; and then, last come first, one for
// each slot that has none.
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
		at int // its place in the slot
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
	at := c.queue.ready.Choice(e.item).Free
	return at > 0 && len(c.pool.slots[at].attempts) == 0
}

// recallOne asks an attempt back that waits at its slot, once, unless it is being ended.
func (c *Core) recallOne(e *entry) {
	if e.sentAhead() && !e.recalled && e.ladder == task.NotAsked {
		e.recalled = true
		c.fx.Recall = append(c.fx.Recall, e.toAttempt())
	}
}
