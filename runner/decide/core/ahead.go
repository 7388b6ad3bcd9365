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

// brief is how long the attempt that runs in a slot may have run when another one is sent there, and
// while it waits: so a long task holds up no other.
const brief = time.Second

// free returns how many more attempts could run now.
func (c *Core) free() int {
	if c.pool.most > 0 {
		return c.pool.idle
	}
	return c.pool.capacity - c.queue.ready.Held()
}

// askBack asks attempts back that wait at slots: all if nothing more is to start, and those behind
// one that is not brief, for which it looks from time to time; and then, last come first, one for
// each slot that has none.
func (c *Core) askBack() {
	p := &c.pool
	all, looks, idle := c.end.phase > going || c.paused(), c.reached(p.lookAt), p.idle
	if c.output.full() || c.queue.wait != sched.ForSlot {
		idle = 0
	}
	if p.lookAt.IsZero() || idle == 0 && !all && !looks {
		return
	}
	if looks {
		p.lookAt = time.Time{}
	}
	type waiting struct {
		*entry
		at int // its place in the slot
	}
	var list []waiting
	for _, at := range p.places {
		for i, e := range at.list {
			if !e.ahead() {
				continue
			}
			if looks {
				p.lookAt = c.run.Add(brief)
			}
			switch {
			case e.asked:
				idle--
			case all, looks && c.run.Sub(at.list[0].begun) >= brief:
				c.ask(e)
			case c.couldBegin(e):
				list = append(list, waiting{e, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return cmp.Or(b.at-a.at, cmp.Compare(a.item.ID, b.item.ID)) })
	for _, w := range list[:min(len(list), max(idle, 0))] {
		c.ask(w.entry)
	}
}

// couldBegin reports whether an attempt that waits at its slot could begin in an idle one.
func (c *Core) couldBegin(e *entry) bool {
	at := c.queue.ready.Choice(e.item).Free
	return at > 0 && len(c.pool.places[at].list) == 0
}

// ask asks an attempt back that waits at its slot, once, unless it is being ended.
func (c *Core) ask(e *entry) {
	if e.ahead() && !e.asked && e.ladder == task.Untouched {
		e.asked = true
		c.fx.Recall = append(c.fx.Recall, e.run())
	}
}
