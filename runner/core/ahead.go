package core

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// With Pool.Ahead a slot of another machine is given its next attempts before it asks for them.
// There they wait for their turn, so the core counts them as started only then. Those that
// have not begun are asked back when they could start elsewhere, or are not to start there.

// aheadFor is for how long an attempt may run until those that wait for it go elsewhere. In that
// time a round trip is nothing.
const aheadFor = time.Second

// lags has no attempt wait for one that takes long.
func (c *Core) lags(e *entry) {
	at := c.pool.places[e.slot.ID]
	if at.slot == nil {
		return
	}
	at.slow = true
	c.queue.ready.Resize(at.id, at.slot.Cap)
	for _, o := range at.ahead {
		if !o.asked && o.ladder == task.Untouched {
			c.ask(o)
		}
	}
}

// quick undoes lags.
func (c *Core) quick(at *place) {
	if at.slow && at.slot != nil {
		c.queue.ready.Resize(at.id, at.slot.Cap+c.pool.most)
	}
	at.slow = false
}

// advance takes an attempt out of those that wait at its slot.
func (c *Core) advance(e *entry) {
	at := c.pool.places[e.slot.ID]
	at.ahead = slices.DeleteFunc(at.ahead, func(o *entry) bool { return o == e })
	c.pool.ahead--
	e.ahead = false
}

// free returns how many more attempts could run now.
func (c *Core) free() int {
	if c.pool.most > 0 {
		return c.pool.idle
	}
	return c.pool.capacity - c.queue.ready.Held()
}

// askBack asks attempts back that wait at slots: all if nothing more is to start, or else, last come
// first, one for each slot that has none.
func (c *Core) askBack() {
	q, idle := &c.queue, c.pool.idle
	all := c.end.phase > going || q.paused || c.time.Stopped()
	if q.frozen || c.output.full() || q.wait != sched.ForSlot {
		idle = 0
	}
	if c.pool.ahead == 0 || idle == 0 && !all {
		return
	}
	type waiting struct {
		*entry
		at int // its place in the slot
	}
	var list []waiting
	for _, at := range c.pool.places {
		for i, e := range at.ahead {
			switch {
			case all:
				c.ask(e)
			case e.asked:
				idle--
			case q.ready.Idle(e.item):
				list = append(list, waiting{e, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return cmp.Or(b.at-a.at, cmp.Compare(a.item.ID, b.item.ID)) })
	for _, w := range list[:min(len(list), max(idle, 0))] {
		c.ask(w.entry)
	}
}

// ask asks an attempt back, once, unless it is being ended.
func (c *Core) ask(e *entry) {
	if !e.asked && e.ladder == task.Untouched {
		e.asked = true
		c.fx.Recall = append(c.fx.Recall, e.run())
	}
}
