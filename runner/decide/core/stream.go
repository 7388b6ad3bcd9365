package core

import (
	"slices"

	"crew/runner/decide/task"
)

// stream holds the attempts of a slot that a Streamer serves.
type stream struct {
	serving     bool           // Serve runs
	next        []task.Attempt // for the next Swap
	taken       []task.Attempt // by the latest Swap
	wakePending bool           // Effects.Wakes has named the slot since then
}

// streams holds what is common to all of them.
type streams struct {
	on        bool
	serving   int              // slots that are being served
	announced task.Expectation // what the slots have been told
	resized   bool             // slots have joined or left since then
	taker     *slot            // of the Swap in this step
}

// Swap takes the results of a slot's attempts. Effects.Taken are those to run there from
// now on.
func (c *Core) Swap(slot int, ended []*task.Result) {
	c.Ended(ended...)
	c.pool.streams.taker = c.pool.slots[slot]
}

// Served takes the return of Streamer.Serve, and returns whether to call it again.
func (c *Core) Served(slot int) (again bool) {
	at, s := c.pool.slots[slot], &c.pool.streams
	if again = len(at.stream.next) > 0 || c.expectationOf(at) == task.ExpectMore; !again {
		at.stream.serving = false
		s.serving = max(0, s.serving-1) // 0 if they were given up
	}
	return again
}

// serve has a slot served.
func (c *Core) serve(at *slot) {
	if s := &at.stream; !s.serving {
		s.serving, s.wakePending = true, true
		c.pool.streams.serving++
		c.fx.Serve = append(c.fx.Serve, *at.current)
	}
}

// wakeSlot has a slot swap soon.
func (c *Core) wakeSlot(at *slot) {
	if !at.stream.wakePending {
		at.stream.wakePending = true
		c.fx.Wakes = append(c.fx.Wakes, at.id)
	}
}

// handOver hands over what waits for the slot that swaps.
func (c *Core) handOver() {
	at := c.pool.streams.taker
	if at == nil {
		return
	}
	c.pool.streams.taker = nil
	s := &at.stream
	s.taken, s.next = s.next, s.taken[:0]
	s.wakePending = false
	c.fx.Taken, c.fx.Left = s.taken, c.expectationOf(at)
}

// updateStreams has slots served that have joined, and rouses all when they have something else
// to expect.
func (c *Core) updateStreams() {
	s, left := &c.pool.streams, c.expectation()
	if !s.on || left == s.announced && !s.resized {
		return
	}
	s.announced, s.resized = left, false
	for _, at := range c.pool.slots {
		if at.current != nil && left == task.ExpectMore {
			c.serve(at)
		}
		if at.stream.serving {
			c.wakeSlot(at)
		}
	}
}

// expectationOf returns what a slot has to expect.
func (c *Core) expectationOf(at *slot) task.Expectation {
	if at.current == nil {
		return task.ExpectNone
	}
	return c.expectation()
}

// expectation returns what every slot has to expect.
func (c *Core) expectation() task.Expectation {
	switch {
	case !c.input.over() && c.end.phase == going:
		return task.ExpectMore
	case len(c.entries) == 0:
		return task.ExpectNone
	case c.queue.waiting() == 0:
		return task.ExpectRetries
	}
	return task.ExpectMore
}

// cancelUntaken ends an attempt that its slot has not taken yet, and reports whether it did.
func (c *Core) cancelUntaken(e *entry, cause error) bool {
	s := &c.pool.slots[e.slot.ID].stream
	i := slices.IndexFunc(s.next, func(a task.Attempt) bool { return a.Task == e.task })
	if i < 0 {
		return false
	}
	s.next = slices.Delete(s.next, i, i+1)
	r := e.cancelResult(cause, c.now)
	r.Outcome, r.Start = task.OutcomeOf(cause), c.now
	c.decideEnd(e, r)
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
	for _, at := range c.pool.slots {
		if at.stream.serving {
			c.fx.Acts = append(c.fx.Acts, Act{Slot: at.id, Cause: cause})
		}
	}
}
