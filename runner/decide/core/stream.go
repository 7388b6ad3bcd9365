package core

import (
	"slices"

	"crew/runner/decide/task"
)

// stream holds the attempts of a slot that a Streamer serves.
type stream struct {
	serving bool           // Serve runs
	next    []task.Attempt // for the next Swap
	taken   []task.Attempt // by the latest Swap
	woken   bool           // Effects.Wakes has named the slot since then
}

// streams holds what is common to all of them.
type streams struct {
	on      bool
	serving int       // slots that are being served
	left    task.Left // what the slots have been told
	resized bool      // slots have joined or left since then
	taker   *place    // of the Swap in this step
}

// Swap takes the results of a slot's attempts. Effects.Taken are those to run there from
// now on.
func (c *Core) Swap(slot int, ended []*task.Result) {
	c.Ended(ended...)
	c.pool.streams.taker = c.pool.places[slot]
}

// Served takes the return of Streamer.Serve, and returns whether to call it again.
func (c *Core) Served(slot int) (again bool) {
	at, s := c.pool.places[slot], &c.pool.streams
	if again = len(at.stream.next) > 0 || c.leftTo(at) == task.LeftMore; !again {
		at.stream.serving = false
		s.serving = max(0, s.serving-1) // 0 if they were given up
	}
	return again
}

// serve has a slot served.
func (c *Core) serve(at *place) {
	if s := &at.stream; !s.serving {
		s.serving, s.woken = true, true
		c.pool.streams.serving++
		c.fx.Serve = append(c.fx.Serve, *at.slot)
	}
}

// rouse has a slot swap soon.
func (c *Core) rouse(at *place) {
	if !at.stream.woken {
		at.stream.woken = true
		c.fx.Wakes = append(c.fx.Wakes, at.id)
	}
}

// deal hands over what waits for the slot that swaps.
func (c *Core) deal() {
	at := c.pool.streams.taker
	if at == nil {
		return
	}
	c.pool.streams.taker = nil
	s := &at.stream
	s.taken, s.next = s.next, s.taken[:0]
	s.woken = false
	c.fx.Taken, c.fx.Left = s.taken, c.leftTo(at)
}

// tell has slots served that have joined, and rouses all when they have something else
// to expect.
func (c *Core) tell() {
	s, left := &c.pool.streams, c.left()
	if !s.on || left == s.left && !s.resized {
		return
	}
	s.left, s.resized = left, false
	for _, at := range c.pool.places {
		if at.slot != nil && left == task.LeftMore {
			c.serve(at)
		}
		if at.stream.serving {
			c.rouse(at)
		}
	}
}

// leftTo returns what a slot has to expect.
func (c *Core) leftTo(at *place) task.Left {
	if at.slot == nil {
		return task.LeftNone
	}
	return c.left()
}

// left returns what every slot has to expect.
func (c *Core) left() task.Left {
	switch {
	case !c.input.over() && c.end.phase == going:
		return task.LeftMore
	case len(c.entries) == 0:
		return task.LeftNone
	case c.queue.waits() == 0:
		return task.LeftRest
	}
	return task.LeftMore
}

// recall ends an attempt that its slot has not taken yet, and reports whether it did.
func (c *Core) recall(e *entry, cause error) bool {
	s := &c.pool.places[e.slot.ID].stream
	i := slices.IndexFunc(s.next, func(a task.Attempt) bool { return a.Task == e.task })
	if i < 0 {
		return false
	}
	s.next = slices.Delete(s.next, i, i+1)
	r := e.cut(cause, c.now)
	r.Outcome, r.Start = task.EndedBy(cause), c.now
	c.decide(e, r)
	c.fx.Record = append(c.fx.Record, r)
	return true
}

// endWorkers asks the processes that serve slots to end or, if cause is nil, has them
// killed.
func (c *Core) endWorkers(cause error) {
	if c.pool.streams.serving == 0 {
		return
	}
	if cause == nil {
		c.fx.Acts = append(c.fx.Acts, Act{})
		return
	}
	for _, at := range c.pool.places {
		if at.stream.serving {
			c.fx.Acts = append(c.fx.Acts, Act{Slot: at.id, Cause: cause})
		}
	}
}
