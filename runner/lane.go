package runner

import (
	"slices"

	"crew/runner/task"
)

// lane is a slot of a Streamer: what it is to run, and what its goroutine knows. All
// but taken and finals is under the run's lock.
type lane struct {
	slot    task.Slot
	serving bool           // its goroutine runs
	next    []task.Attempt // for the next swap
	taken   []task.Attempt // returned by the latest swap
	told    task.Left      // likewise
	woken   bool           // there has been a Wake since then
	finals  []bool         // buffer of recordAll
}

// assign gives an attempt to the lane of its slot.
func (r *Run) assign(e *entry) {
	l := r.lane(*e.slot)
	l.next = append(l.next, task.Attempt{Task: e.task, Number: e.attempt, Slot: *e.slot})
	r.serve(l)
	if l != r.taker { // which takes it now
		r.rouse(l)
	}
}

// lane returns the lane of a slot.
func (r *Run) lane(slot task.Slot) *lane {
	for slot.ID >= len(r.lanes) {
		r.lanes = append(r.lanes, &lane{})
	}
	l := r.lanes[slot.ID]
	l.slot = slot
	return l
}

// serve starts the goroutine of a lane if it does not run.
func (r *Run) serve(l *lane) {
	if !l.serving {
		l.serving, l.told, l.woken = true, task.LeftMore, true
		r.core.serving++
		go r.stream(l, l.slot)
	}
}

// rouse has the goroutine of a lane call swap soon.
func (r *Run) rouse(l *lane) {
	if !l.woken {
		l.woken = true
		r.wakes = append(r.wakes, l.slot.ID)
	}
}

// tellLanes starts the goroutines of slots that have joined, and rouses those that
// have less to expect than they know.
func (r *Run) tellLanes() {
	c := r.core
	left := c.left()
	if r.streamer == nil || left == r.left && c.resizes == r.resizes {
		return
	}
	r.left, r.resizes = left, c.resizes
	for _, s := range c.slots {
		if s != nil && left == task.LeftMore {
			r.serve(r.lane(*s))
		}
	}
	for _, l := range r.lanes {
		if l.serving && r.leftTo(l) != l.told {
			r.rouse(l)
		}
	}
}

// leftTo returns what a lane has to expect.
func (r *Run) leftTo(l *lane) task.Left {
	if r.core.slots[l.slot.ID] == nil {
		return task.LeftNone
	}
	return r.core.left()
}

// left returns what every slot has to expect.
func (c *core) left() task.Left {
	switch {
	case !c.readAll() && c.phase == going:
		return task.LeftMore
	case len(c.entries) == 0:
		return task.LeftNone
	case c.waits() == 0:
		return task.LeftRest
	}
	return task.LeftMore
}

// stream runs the attempts of a lane until there are no more.
func (r *Run) stream(l *lane, slot task.Slot) {
	swap := func(ended []*task.Result) ([]task.Attempt, task.Left) { return r.swap(l, ended) }
	for again := true; again; {
		r.streamer.Serve(slot, swap)
		again = false
		r.do(func(c *core) {
			if again = len(l.next) > 0 || r.leftTo(l) == task.LeftMore; !again {
				l.serving = false
				c.serving = max(0, c.serving-1) // 0 if they were given up
			}
		}, nil)
	}
}

// swap is the task.Swap of a lane.
func (r *Run) swap(l *lane, ended []*task.Result) ([]task.Attempt, task.Left) {
	if r.rec != nil {
		r.recordAll(l, ended)
	}
	over := true
	r.do(func(c *core) {
		over = false
		for _, res := range ended {
			if e := c.attempt(res); e != nil {
				if r.rec == nil {
					c.decide(e, res)
				}
				c.recorded(e)
			}
		}
		r.taker = l
	}, nil)
	if over {
		return nil, task.LeftNone
	}
	if r.rec != nil {
		for i, a := range l.taken {
			r.rec.Started(a, i < len(l.taken)-1)
		}
		if len(ended) > 0 && len(l.taken) == 0 {
			r.rec.Idle()
		}
	}
	return l.taken, l.told
}

// recordAll has the ends of attempts decided and recorded. See record.
func (r *Run) recordAll(l *lane, ended []*task.Result) {
	if len(ended) == 0 {
		return
	}
	l.finals = l.finals[:0]
	r.do(func(c *core) {
		for _, res := range ended {
			e := c.attempt(res)
			l.finals = append(l.finals, e != nil && c.decide(e, res))
			if e == nil {
				res.Task = nil
			}
		}
	}, nil)
	for i, final := range l.finals {
		if res := ended[i]; res.Task != nil {
			r.rec.Ended(task.Attempt{Task: res.Task, Number: res.Attempt, Slot: l.slot}, res, final)
		}
	}
}

// attempt returns the task whose attempt has ended with a result, or nil if the run
// has given it up.
func (c *core) attempt(res *task.Result) *entry {
	if res.Task == nil {
		return nil
	}
	return c.entries[res.Task.ID]
}

// deal hands over what waits for the lane whose goroutine is in the door.
func (r *Run) deal() {
	l := r.taker
	if l == nil {
		return
	}
	r.taker = nil
	l.taken, l.next = l.next, l.taken[:0]
	l.told, l.woken = r.leftTo(l), false
}

// recall ends attempts at once that no goroutine has taken yet.
func (r *Run) recall() {
	c := r.core
	c.acts = slices.DeleteFunc(c.acts, func(a act) bool {
		if a.cause == nil || a.task == 0 {
			return false
		}
		l := r.lanes[a.slot]
		i := slices.IndexFunc(l.next, func(t task.Attempt) bool { return t.Task.ID == a.task })
		if i < 0 {
			return false
		}
		l.next = slices.Delete(l.next, i, i+1)
		e := c.entries[a.task]
		c.decide(e, &task.Result{
			Task: e.task, Attempt: e.attempt, Worker: a.slot, Outcome: task.Cancelled, Err: a.cause, Start: c.now, End: c.now,
		})
		c.refused = append(c.refused, refused{e, e.task, e.result})
		return true
	})
}

// call carries out what the door has decided on, outside of it.
func (r *Run) call(acts []act, wakes []int) {
	for _, a := range acts {
		switch {
		case a.cause == nil:
			r.exec.Kill(a.task, a.attempt)
		case !a.asks():
			r.end(a)
		}
	}
	for _, slot := range wakes {
		r.streamer.Wake(slot)
	}
}

// end passes an act on to the Streamer.
func (r *Run) end(a act) {
	if a.task != 0 {
		r.streamer.End(a.slot, a.task, a.attempt, a.cause)
		return
	}
	r.mu.Lock()
	n := len(r.lanes)
	r.mu.Unlock()
	for slot := 1; slot < n; slot++ {
		r.streamer.End(slot, 0, 0, a.cause)
	}
}
