package runner

import (
	"context"

	"crew/runner/core"
	"crew/runner/task"
)

// turn holds what a goroutine that brings a fact takes over from the door.
type turn struct {
	runs    bool // there is an attempt to run
	attempt task.Attempt
	taken   []task.Attempt // to run in the goroutine's slot of a Streamer
	left    task.Left      // what that slot has to expect

	ctx context.Context // the attempt's alone, so a late end finds nobody
}

// begin takes an attempt over.
func (t *turn) begin(s *core.Start) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.runs, t.attempt, t.ctx, *s.Tag = true, s.Attempt, ctx, cancel
}

// work runs an attempt and those that start in its place.
func (r *Run) work(t *turn) {
	var verdicts []core.Verdict
	for t.runs {
		if r.rec != nil {
			r.rec.Started(t.attempt, false)
		}
		res := r.attempt(t)
		if r.rec != nil {
			verdicts = r.record(t.attempt.Slot, []*task.Result{res}, verdicts)
		}
		t.runs = false
		r.do(func(c *core.Core) { c.Ended(res) }, t)
	}
	if r.rec != nil {
		r.rec.Idle()
	}
}

// attempt runs an attempt and looks after the files that it makes.
func (r *Run) attempt(t *turn) *task.Result {
	if res := r.prepare(t.attempt); res != nil {
		return res
	}
	return r.complete(r.exec.Run(t.ctx, t.attempt))
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

// record has the ends of attempts of a slot decided and recorded. It returns the
// verdicts in the buffer.
func (r *Run) record(slot task.Slot, ended []*task.Result, verdicts []core.Verdict) []core.Verdict {
	verdicts = verdicts[:0]
	r.do(func(c *core.Core) {
		for _, res := range ended {
			verdicts = append(verdicts, c.Decide(res))
		}
	}, nil)
	for i, v := range verdicts {
		if res := ended[i]; v != core.Void {
			r.rec.Ended(task.Attempt{Task: res.Task, Number: res.Attempt, Slot: slot}, res, v == core.Final)
		}
	}
	return verdicts
}

// serve has the Streamer serve a slot until there is nothing more to run.
func (r *Run) serve(slot task.Slot) {
	var verdicts []core.Verdict
	var t turn
	var unmade []*task.Result // of attempts that could not start
	swap := func(ended []*task.Result) ([]task.Attempt, task.Left) {
		for _, res := range ended {
			r.complete(res)
		}
		ended, unmade = append(ended, unmade...), nil
		if r.rec != nil && len(ended) > 0 {
			verdicts = r.record(slot, ended, verdicts)
		}
		t = turn{left: task.LeftNone} // if the run is over
		r.do(func(c *core.Core) { c.Swap(slot.ID, ended) }, &t)
		if r.rec != nil {
			for i, a := range t.taken {
				r.rec.Started(a, i < len(t.taken)-1)
			}
			if len(ended) > 0 && len(t.taken) == 0 {
				r.rec.Idle()
			}
		}
		if r.maker != nil {
			t.taken, unmade = r.beginAll(t.taken)
		}
		if len(unmade) > 0 {
			r.streamer.Wake(slot.ID)
		}
		return t.taken, t.left
	}
	for again := true; again; {
		r.streamer.Serve(slot, swap)
		again = false
		r.do(func(c *core.Core) { again = c.Served(slot.ID) }, nil)
	}
}

// beginAll prepares the files of attempts. It returns those that can start, and the results
// of the others.
func (r *Run) beginAll(all []task.Attempt) (begun []task.Attempt, unmade []*task.Result) {
	for _, a := range all {
		if res := r.prepare(a); res != nil {
			unmade = append(unmade, res)
		} else {
			begun = append(begun, a)
		}
	}
	return begun, unmade
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
