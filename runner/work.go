package runner

import (
	"context"
	"slices"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel/stack"
)

// handoff holds the attempts that the door leaves to the goroutine that called it.
type handoff struct {
	attempts []task.Attempt   // to run: at most one or, with a Streamer, any number for the caller's slot
	expect   task.Expectation // the work that this slot can expect

	one      [1]task.Attempt // storage of attempts without a Streamer
	ctx      context.Context // of this attempt alone, so that a late request to end it has no effect
	verdicts []core.Verdict  // for reuse
}

// begin puts an attempt into t.
func (t *handoff) begin(s *core.Start) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.one[0], t.ctx, *s.Tag = s.Attempt, ctx, cancel
	t.attempts = t.one[:]
}

// work runs an attempt and then the attempts that start in its place.
func (r *Run) work(t *handoff) {
	stack.Grow()
	r.recordStarts(t)
	for len(t.attempts) > 0 {
		res := r.prepare(t.one[0])
		if res == nil {
			res = r.complete(r.exec.Run(t.ctx, t.one[0]))
		}
		r.report(t, t.one[0].Slot, []*task.Result{res}, func(c *core.Core) { c.Ended(res) })
	}
}

// report decides on and records the results of attempts of a slot, passes the fact to the core, and
// records the attempts that start then, which are in t.
func (r *Run) report(t *handoff, slot task.Slot, ended []*task.Result, fact func(*core.Core)) {
	if r.rec != nil && len(ended) > 0 {
		r.recordEnds(t, slot, ended)
	}
	t.attempts, t.expect = nil, task.ExpectNone // in case the run is over
	r.do(fact, t)
	r.recordStarts(t)
	if r.rec != nil && len(ended) > 0 && len(t.attempts) == 0 {
		r.rec.Idle()
	}
}

// recordStarts records that the attempts in t start.
func (r *Run) recordStarts(t *handoff) {
	if r.rec != nil {
		for i, a := range t.attempts {
			r.rec.Started(a, i < len(t.attempts)-1)
		}
	}
}

// prepare prepares the files of an attempt. It returns nil, or the result of an attempt that cannot
// start.
func (r *Run) prepare(a task.Attempt) *task.Result {
	if a.Task.Makes == nil {
		return nil
	}
	return r.maker.Begin(a)
}

// complete keeps the files of an ended attempt, and notes in its result if memory was probably too
// short. It returns res.
func (r *Run) complete(res *task.Result) *task.Result {
	if res.Killed() && res.Err == nil && r.machine.Starved != nil && r.machine.Starved() {
		res.Err = task.ErrOutOfMemory
	}
	if res.Task.Makes != nil {
		r.maker.End(res)
	}
	return res
}

// recordEnds lets the core decide on the results of attempts of a slot, and records them.
func (r *Run) recordEnds(t *handoff, slot task.Slot, ended []*task.Result) {
	t.verdicts = t.verdicts[:0]
	r.do(func(c *core.Core) {
		for _, res := range ended {
			t.verdicts = append(t.verdicts, c.Decide(res))
		}
	}, nil)
	for i, v := range t.verdicts {
		if res := ended[i]; v != core.Void {
			r.rec.Ended(task.Attempt{Task: res.Task, Number: res.Attempt, Slot: slot}, res, v == core.Final)
		}
	}
}

// serve lets the Streamer serve a slot until there is nothing more to run.
func (r *Run) serve(slot task.Slot) {
	var t handoff
	var unmade []*task.Result // of attempts that could not start
	swap := func(ended []*task.Result) ([]task.Attempt, task.Expectation) {
		for _, res := range ended {
			r.complete(res)
		}
		ended, unmade = append(ended, unmade...), nil
		r.report(&t, slot, ended, func(c *core.Core) { c.Swap(slot.ID, ended) })
		t.attempts = slices.DeleteFunc(t.attempts, func(a task.Attempt) bool {
			res := r.prepare(a)
			if res != nil {
				unmade = append(unmade, res)
			}
			return res != nil
		})
		if unmade != nil {
			r.streamer.Wake(slot.ID)
		}
		return t.attempts, t.expect
	}
	for again := true; again; {
		r.streamer.Serve(slot, swap)
		again = false
		r.do(func(c *core.Core) { again = c.Served(slot.ID) }, nil)
	}
}

// read is the reader.
func (r *Run) read() {
	stack.Grow()
	number := r.core.Number
	buffered := func() bool { return false }
	if s, ok := r.src.(interface{ Buffered() bool }); ok {
		buffered = s.Buffered
	}
	var tasks []*task.Task
	for {
		select {
		case <-r.wake:
		case <-r.over:
			return
		}
		for room := 1; room > 0; {
			t, err := r.src.Next(number)
			if err == nil {
				tasks = append(tasks, t)
				if len(tasks) < room && buffered() {
					continue
				}
			}
			if len(tasks) > 0 {
				room = 0 // in case the run is over
				r.do(func(c *core.Core) { room = c.Read(tasks) }, nil)
				clear(tasks)
				tasks = tasks[:0]
			}
			if err != nil {
				r.do(func(c *core.Core) { c.EndInput(err) }, nil)
				return
			}
		}
	}
}
