package runner

import (
	"context"
	"slices"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

// handoff holds what a goroutine that brings a fact takes over from the door.
type handoff struct {
	attempts []task.Attempt   // to run: one, or those in the goroutine's slot of a Streamer
	expect   task.Expectation // what that slot has to expect

	one      [1]task.Attempt
	ctx      context.Context // that attempt's alone, so a late end finds nobody
	verdicts []core.Verdict
}

// begin takes an attempt over.
func (t *handoff) begin(s *core.Start) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.one[0], t.ctx, *s.Tag = s.Attempt, ctx, cancel
	t.attempts = t.one[:]
}

// work runs an attempt and those that start in its place.
func (r *Run) work(t *handoff) {
	r.recordStarts(t)
	for len(t.attempts) > 0 {
		res := r.prepare(t.one[0])
		if res == nil {
			res = r.complete(r.exec.Run(t.ctx, t.one[0]))
		}
		r.report(t, t.one[0].Slot, []*task.Result{res}, func(c *core.Core) { c.Ended(res) })
	}
}

// report has the ends of attempts of a slot decided and recorded, brings the fact of them, and
// has recorded what starts then, which is in t.
func (r *Run) report(t *handoff, slot task.Slot, ended []*task.Result, fact func(*core.Core)) {
	if r.rec != nil && len(ended) > 0 {
		r.recordEnds(t, slot, ended)
	}
	t.attempts, t.expect = nil, task.ExpectNone // if the run is over
	r.do(fact, t)
	r.recordStarts(t)
	if r.rec != nil && len(ended) > 0 && len(t.attempts) == 0 {
		r.rec.Idle()
	}
}

// recordStarts has recorded that attempts start.
func (r *Run) recordStarts(t *handoff) {
	if r.rec != nil {
		for i, a := range t.attempts {
			r.rec.Started(a, i < len(t.attempts)-1)
		}
	}
}

// prepare prepares the files of an attempt, and returns its result if it cannot start.
func (r *Run) prepare(a task.Attempt) *task.Result {
	if a.Task.Makes == nil {
		return nil
	}
	return r.maker.Begin(a)
}

// complete keeps the files of an attempt that has ended, and says of its result, which it
// returns, that memory was probably lacking, if that is so.
func (r *Run) complete(res *task.Result) *task.Result {
	if res.Killed() && res.Err == nil && r.machine.Starved != nil && r.machine.Starved() {
		res.Err = task.ErrOutOfMemory
	}
	if res.Task.Makes != nil {
		r.maker.End(res)
	}
	return res
}

// recordEnds has the ends of attempts of a slot decided and recorded.
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

// serve has the Streamer serve a slot until there is nothing more to run.
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
				room = 0 // unless the run goes on
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
