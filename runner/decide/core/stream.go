package core

import (
	"slices"

	"crew/runner/decide/task"
)

// stream holds the attempts of a slot that a Streamer serves.
type stream struct {
	serving     bool           // Streamer.Serve runs
	next        []task.Attempt // for the next Swap
	taken       []task.Attempt // by the latest Swap
	wakePending bool           // Effects.Wakes has named the slot since that Swap
}

// streams is the state that the served slots share.
type streams struct {
	serving   int              // slots that are being served
	announced task.Expectation // what the slots were last told to expect
	resized   bool             // slots have joined or left since then
	swapping  *slot            // slot of the Swap in this step; nil for none
}

// Swap takes the results of attempts of a slot. Effects.Taken then has the attempts to run there
// next.
func (c *Core) Swap(slot int, ended []*task.Result) {
	c.Ended(ended...)
	c.pool.streams.swapping = c.pool.slots[slot]
}

// Served reports that Streamer.Serve has returned, and returns whether to call it again.
func (c *Core) Served(slot int) (again bool) {
	at, s := c.pool.slots[slot], &c.pool.streams
	if again = len(at.stream.next) > 0 || c.expectationOf(at) == task.ExpectMore; !again {
		at.stream.serving = false
		s.serving = max(0, s.serving-1) // giveUp may have set it to 0
	}
	return again
}

// serve starts to serve a slot, unless it is being served.
func (c *Core) serve(at *slot) {
	if s := &at.stream; !s.serving {
		s.serving, s.wakePending = true, true
		c.pool.streams.serving++
		c.fx.Serve = append(c.fx.Serve, *at.current)
	}
}

// wakeSlot makes a slot swap soon.
func (c *Core) wakeSlot(at *slot) {
	if !at.stream.wakePending {
		at.stream.wakePending = true
		c.fx.Wakes = append(c.fx.Wakes, at.id)
	}
}

// handOver gives the slot that swaps its attempts.
func (c *Core) handOver() {
	at := c.pool.streams.swapping
	if at == nil {
		return
	}
	c.pool.streams.swapping = nil
	s := &at.stream
	s.taken, s.next = s.next, s.taken[:0]
	s.wakePending = false
	c.fx.Taken, c.fx.Expect = s.taken, c.expectationOf(at)
}

// updateStreams serves slots that have joined, and wakes all slots when they should expect
// something else.
func (c *Core) updateStreams() {
	s, left := &c.pool.streams, c.expectation()
	if !c.exec.Streams || left == s.announced && !s.resized {
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

// expectationOf returns the work that a slot can expect.
func (c *Core) expectationOf(at *slot) task.Expectation {
	if at.current == nil {
		return task.ExpectNone
	}
	return c.expectation()
}

// expectation returns the work that every slot can expect.
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
	r := e.toAttempt().End(task.OutcomeOf(cause), cause, c.now)
	c.decideEnd(e, r)
	c.fx.Record = append(c.fx.Record, r)
	return true
}

// endWorkers asks the worker processes of all slots to end or, if cause is nil, kills them.
func (c *Core) endWorkers(cause error) {
	if c.pool.streams.serving == 0 {
		return
	}
	if cause == nil {
		c.fx.Stops = append(c.fx.Stops, Stop{})
		return
	}
	for _, at := range c.pool.slots {
		if at.stream.serving {
			c.fx.Stops = append(c.fx.Stops, Stop{Slot: at.id, Cause: cause})
		}
	}
}
