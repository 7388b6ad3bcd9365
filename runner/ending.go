package runner

import (
	"cmp"
	"errors"
	"slices"
	"syscall"
	"time"

	"crew/runner/task"
	"crew/sched"
)

var (
	errStopped   = errors.New("the run ends")
	errCancelled = errors.New("cancelled")
	errAbandoned = errors.New("did not end in time")
)

// judge ends the run if a finished task is a reason to.
func (c *core) judge(r *task.Result) {
	c.interrupt(r)
	if r.BadCommand && c.cfg.SameCommand {
		c.ends(BadCommand, r, nil)
		c.drain("")
	}
	if c.counts(r) {
		c.counted = r
		c.halt()
	}
}

// interrupt drains the run if the user has interrupted an attempt.
func (c *core) interrupt(r *task.Result) {
	if r.Interrupted {
		c.ending.Interrupted = true
		c.told(task.Command{Op: task.Drain, Signal: r.Signal})
	}
}

// ends notes a reason for the end of the run. The worst one stays, and the first
// of equals.
func (c *core) ends(why Reason, r *task.Result, err error) {
	if c.ending.Reason < why {
		c.ending.Reason, c.ending.Result, c.ending.Err = why, r, err
	}
}

// halt ends the run once enough results count for Config.Halt.
func (c *core) halt() {
	if c.counted == nil || c.ending.Reason >= Halted || !c.enough() {
		return
	}
	c.ends(Halted, c.counted, nil)
	if c.cfg.Halt.When == Now {
		c.stop("--halt")
	} else {
		c.drain("--halt")
	}
}

// counts reports whether Config.Halt counts a result.
func (c *core) counts(r *task.Result) bool {
	if c.cfg.Halt.When == Never || r.Outcome == task.NotRun || r.Outcome == task.Cancelled {
		return false
	}
	switch c.cfg.Halt.On {
	case OnFail:
		return r.Outcome.Failed()
	case OnSuccess:
		return r.Outcome == task.OK
	}
	return true
}

// enough reports whether as many results count as Config.Halt asks for.
func (c *core) enough() bool {
	h := c.cfg.Halt
	ok, failed := c.stats.Here()
	n := [...]int64{OnFail: failed, OnSuccess: ok, OnDone: ok + failed}[h.On]
	if !h.Percent {
		return n >= int64(h.N)
	}
	of := int64(h.Tasks) - c.stats.Resumed() // as far as they have been read
	return of > 0 && n*100 >= int64(h.N)*of
}

// drain starts nothing more. Waiting tasks end as not run.
func (c *core) drain(why string) {
	if c.phase < draining {
		c.enter(draining, task.Draining, why)
	}
}

// stop drains and asks running attempts to end.
func (c *core) stop(why string) {
	if c.phase >= stopping {
		return
	}
	if c.running > 0 {
		c.enter(stopping, task.Stopping, why)
	} else {
		c.drain(why)
		c.phase = stopping
	}
	for e := range c.holding {
		if e.state == running {
			c.terminate(e, errStopped)
		}
	}
	if c.serving > 0 {
		c.acts = append(c.acts, act{cause: errStopped})
	}
}

// enter goes to a phase in which nothing more starts, and says so with an event of
// a kind. Waiting tasks end as not run.
func (c *core) enter(p phase, kind task.Kind, why string) {
	c.phase = p
	c.endFeed()
	waiting := c.ids(queued, parked, held, delayed)
	retries := 0
	for _, id := range waiting {
		if len(c.entries[id].before) > 0 {
			retries++
		}
	}
	c.emit(task.Event{Kind: kind, Running: c.runningIDs(10), Retries: retries, Text: why})
	// Nothing starts any more, so nobody asks the queues: to take thousands of tasks out of
	// them one by one would keep signals waiting.
	c.limit, c.delayed = nil, sched.NewDelay()
	c.events = slices.Grow(c.events, 2*len(waiting))
	for _, id := range waiting {
		c.notRun(c.entries[id])
	}
}

// kill stops and kills running attempts.
func (c *core) kill(why string) {
	c.stop(why)
	c.phase = killing
	for e := range c.holding {
		if e.state == running {
			c.killTask(e)
		}
	}
	if c.serving > 0 {
		c.acts = append(c.acts, act{})
	}
}

// terminate asks a running task to end, and sets the time at which it is killed.
func (c *core) terminate(e *entry, cause error) {
	if e.stage >= terminated {
		return
	}
	e.stage = terminated
	c.acts = append(c.acts, act{e.handle, e.slot.ID, e.item.ID, e.attempt, cause})
	c.deadline.Push(e.item.ID, c.run.Add(cmp.Or(e.task.KillAfter, c.cfg.Limit.KillAfter)))
}

// killTask kills a running task. It is repeated until the task has ended.
func (c *core) killTask(e *entry) {
	c.terminate(e, errStopped)
	e.stage = killed
	c.acts = append(c.acts, act{e.handle, e.slot.ID, e.item.ID, e.attempt, nil})
	c.deadline.Push(e.item.ID, c.run.Add(margin))
}

// overdue takes the next step in ending a running task.
func (c *core) overdue(e *entry) {
	if e.stage == untouched {
		c.terminate(e, task.ErrTimeout)
	} else {
		c.killTask(e)
	}
}

// abort ends the run because of an error of crew itself, or because nobody reads
// the results any more. Running attempts may finish, in the latter case only if the
// run drains already.
func (c *core) abort(err error) {
	if c.sealed {
		c.late(err)
		return
	}
	if errors.Is(err, syscall.EPIPE) {
		c.unread(err)
		return
	}
	if c.ending.Reason == Broken {
		c.emit(task.Event{Kind: task.Notice, Text: err.Error()})
	}
	c.ends(Broken, nil, err)
	why := ""
	if c.running > 0 { // otherwise the run ends now and reports the error anyway
		why = err.Error()
	}
	c.drain(why)
}

// sigpipe is the reason in the events of a run that ends because nobody reads it.
const sigpipe = "SIGPIPE"

// unread ends a run whose reader has gone, a moment later.
func (c *core) unread(err error) {
	if c.ending.Reason < Unread && c.phase < draining {
		c.unreadAt = c.run.Add(moment)
	}
	c.ends(Unread, nil, err)
	c.drain(sigpipe)
}

// unreadDue handles the end of a moment.
func (c *core) unreadDue() {
	if c.unreadFor++; c.running > 0 && c.unreadFor < moments {
		c.unreadAt = c.run.Add(moment)
		return
	}
	c.unreadAt = time.Time{}
	c.stop(sigpipe)
	c.wait(c.cfg.Limit.KillAfter + margin)
}

// late takes an error that comes too late for an event to reach the sinks.
func (c *core) late(err error) {
	switch {
	case errors.Is(err, syscall.EPIPE):
		c.unread(err)
	case c.ending.Reason == Broken:
		c.ending.More = append(c.ending.More, err)
	default:
		c.ends(Broken, nil, err)
	}
}

// wait limits the time that a run which was told to end may still take. A run
// that ends by itself waits for its tasks and its reader as long as they take.
func (c *core) wait(d time.Duration) {
	if c.giveUpAt.IsZero() {
		c.giveUpAt = c.run.Add(d)
	}
}

// giveUp stops waiting for attempts that should have ended by now or, if there
// are none, for the reader of the output.
func (c *core) giveUp() {
	c.giveUpAt = c.run.Add(margin)
	if c.sealed {
		c.ending.Unshown = true
		return
	}
	left := c.ids(running, decided)
	if len(left) == 0 {
		c.ending.Abandoned += c.serving
	}
	c.serving = 0
	for _, id := range left {
		e := c.entries[id]
		c.deadline.Remove(id)
		if e.state == decided {
			c.recorded(e)
			continue
		}
		c.ending.Abandoned++
		c.finish(e, &task.Result{
			Task: e.task, Attempt: e.attempt, Worker: e.slot.ID, Host: e.slot.Host, Outcome: task.Cancelled,
			Err: errAbandoned, End: c.now,
		})
	}
}

// withdraw removes a waiting task from its queue.
func (c *core) withdraw(e *entry) {
	id := e.item.ID
	switch e.state {
	case queued:
		c.policy.Remove(id)
		c.unlimit(e)
	case parked:
		c.limit.Remove(id)
	case delayed:
		c.delayed.Remove(id)
		if c.policy.Serial() {
			c.policy.Remove(id) // it is awaited there
		}
	}
}

// notRun finishes a waiting task without another attempt.
func (c *core) notRun(e *entry) {
	c.finish(e, &task.Result{Task: e.task, Attempt: e.attempt, Outcome: task.NotRun, Before: e.before, Omitted: e.omitted, End: c.now})
}

// cancel ends one task in whatever state, by killing it if it runs and kill is true,
// and reports whether it is unfinished.
func (c *core) cancel(id uint64, kill bool) bool {
	e := c.entries[id]
	if e == nil {
		return false
	}
	e.cancelled = true
	switch e.state {
	case running:
		c.terminate(e, errCancelled)
		if kill {
			c.killTask(e)
		}
	case decided: // recorded cancels it if it is to be retried
	default:
		c.withdraw(e)
		c.finish(e, &task.Result{
			Task: e.task, Attempt: e.attempt, Outcome: task.Cancelled, Err: errCancelled, Before: e.before, Omitted: e.omitted,
			End: c.now, Final: true,
		})
	}
	return true
}

// runningIDs returns the lowest n numbers of tasks that hold a slot.
func (c *core) runningIDs(n int) []uint64 {
	ids := make([]uint64, 0, c.running)
	for e := range c.holding {
		ids = append(ids, e.item.ID)
	}
	slices.Sort(ids)
	return ids[:min(n, len(ids))]
}

// ids returns the numbers of the tasks in any of the states, sorted.
func (c *core) ids(in ...state) []uint64 {
	var ids []uint64
	for id, e := range c.entries {
		if slices.Contains(in, e.state) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
