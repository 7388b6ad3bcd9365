package runner

import (
	"context"

	"crew/runner/core"
	"crew/runner/task"
)

// turn holds what a goroutine that brings a fact takes over from the door. The zero turn
// is nothing.
type turn struct {
	attempt task.Attempt // to run, unless handle is nil
	handle  *handle
	taken   []task.Attempt // to run in the goroutine's slot of a Streamer
	left    task.Left      // what that slot has to expect
}

// handle asks an attempt to end. It is the attempt's alone from its start until the run
// takes its end: it is used in the door only, so a late end finds nobody. One that has
// asked no attempt to end then serves another.
type handle struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (r *Run) newHandle() *handle {
	if n := len(r.spare); n > 0 {
		h := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return h
	}
	h := &handle{}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// work runs an attempt and those that start in its place.
func (r *Run) work(t turn) {
	var verdicts []core.Verdict
	for t.handle != nil {
		if r.rec != nil {
			r.rec.Started(t.attempt, false)
		}
		res := r.exec.Run(t.handle.ctx, t.attempt)
		if r.rec != nil {
			verdicts = r.record(t.attempt.Slot, []*task.Result{res}, verdicts)
		}
		r.next(&t, res)
	}
	if r.rec != nil {
		r.rec.Idle()
	}
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

// next takes the end of a turn's attempt, and puts the attempt in that starts in its place.
func (r *Run) next(t *turn, res *task.Result) {
	h := t.handle
	t.handle = nil
	r.do(func(c *core.Core) {
		if h.ctx.Err() == nil {
			r.spare = append(r.spare, h)
		}
		c.Ended(res)
	}, t)
}

// serve has the Streamer serve a slot until there is nothing more to run.
func (r *Run) serve(slot task.Slot) {
	var verdicts []core.Verdict
	var t turn
	swap := func(ended []*task.Result) ([]task.Attempt, task.Left) {
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
		return t.taken, t.left
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
