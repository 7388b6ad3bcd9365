package runner

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"crew/runner/task"
)

var (
	errStopped   = errors.New("the run ends")
	errCancelled = errors.New("cancelled")
	errAbandoned = errors.New("did not end in time")
)

// judge ends the run where a result says so.
func (c *core) judge(r *task.Result) {
	if r.BadCommand && c.cfg.SameCommand {
		c.decides(BadCommand, r)
		c.drain("")
	}
	if c.counts(r) {
		c.counted = r
		c.halt()
	}
}

// decides makes r the result for which the run ends, unless it ends for as bad a
// reason already.
func (c *core) decides(why Reason, r *task.Result) {
	if c.ending.Reason < why {
		c.ending.Reason, c.ending.Result = why, r
	}
}

// halt ends the run once there are enough results of the kind that counts.
func (c *core) halt() {
	if c.counted == nil || c.ending.Reason >= Halted || !c.enough() {
		return
	}
	c.decides(Halted, c.counted)
	c.drain("--halt")
	if c.cfg.Halt.When == Now {
		c.stop("--halt")
	}
}

// counts says whether a result is one of those that Config.Halt counts.
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

// enough says whether this run has met as many of them as Config.Halt says.
func (c *core) enough() bool {
	h := c.cfg.Halt
	ok, failed := c.stats.Here()
	n := [...]int64{OnFail: failed, OnSuccess: ok, OnDone: ok + failed}[h.On]
	if !h.Percent {
		return n >= int64(h.N)
	}
	of := int64(h.Tasks) - c.stats.Resumed() // of those that an earlier run has done not all may be read yet
	return of > 0 && n*100 >= int64(h.N)*of
}

// drain starts nothing more; what waits is not run.
func (c *core) drain(why string) {
	if c.phase >= draining {
		return
	}
	c.phase = draining
	waiting := c.ids(func(e *entry) bool { return e.state != running && e.state != decided })
	retries := 0
	for _, id := range waiting {
		if e := c.entries[id]; len(e.before) > 0 {
			retries++
		}
	}
	c.emit(task.Event{Kind: task.Draining, Running: c.runningIDs(10), Retries: retries, Text: why})
	for _, id := range waiting {
		e := c.entries[id]
		c.withdraw(e)
		c.notRun(e)
	}
}

// stop ends what runs, after drain.
func (c *core) stop(why string) {
	c.drain(why)
	if c.phase >= stopping {
		return
	}
	c.phase = stopping
	if c.running > 0 {
		c.emit(task.Event{Kind: task.Stopping, Running: c.runningIDs(10), Text: why})
	}
	for _, e := range c.entries {
		if e.state == running {
			c.terminate(e, errStopped)
		}
	}
}

// kill ends what runs at once, after stop.
func (c *core) kill(why string) {
	c.stop(why)
	c.phase = killing
	for _, e := range c.entries {
		if e.state == running {
			c.killTask(e)
		}
	}
}

// terminate asks a running task to end. If it does not within the grace, it is
// killed.
func (c *core) terminate(e *entry, cause error) {
	if e.stage >= terminated {
		return
	}
	e.stage = terminated
	c.acts = append(c.acts, act{handle: e.handle, task: e.item.ID, cause: cause})
	c.deadline.Push(e.item.ID, c.run.Add(c.cfg.Limit.KillAfter))
}

func (c *core) killTask(e *entry) {
	c.terminate(e, errStopped)
	e.stage = killed
	c.acts = append(c.acts, act{handle: e.handle, task: e.item.ID, kill: true})
	c.deadline.Push(e.item.ID, c.run.Add(settle))
}

// overdue takes the next step of ending a running task.
func (c *core) overdue(e *entry) {
	if e.stage == untouched {
		c.terminate(e, task.ErrTimeout)
		return
	}
	c.killTask(e)
}

// broke notes why crew itself cannot go on.
func (c *core) broke(why Reason, err error) {
	if c.ending.Reason < why {
		c.ending.Reason, c.ending.Err = why, err
	}
}

// abort ends the run because crew itself cannot go on. What runs may finish,
// except where nobody reads the results any more.
func (c *core) abort(err error) {
	if c.sealed {
		c.late(err)
		return
	}
	if errors.Is(err, syscall.EPIPE) {
		c.broke(Unread, err)
		c.stop(signalName(int(syscall.SIGPIPE)))
		c.wait(c.cfg.Limit.KillAfter + settle)
		return
	}
	if c.ending.Reason == Broken {
		c.emit(task.Event{Kind: task.Notice, Text: err.Error()})
	}
	c.broke(Broken, err)
	why := ""
	if c.running > 0 { // else it is said soon enough, at the end
		why = err.Error()
	}
	c.drain(why)
}

// late takes an error that came when no event reaches the sinks any more.
func (c *core) late(err error) {
	switch {
	case errors.Is(err, syscall.EPIPE):
		c.broke(Unread, err)
	case c.ending.Reason == Broken:
		c.ending.More = append(c.ending.More, err)
	default:
		c.broke(Broken, err)
	}
}

// wait begins the time that a run which was told to end may still take. One that
// ends its tasks by itself waits for them, and for its reader, as long as they
// take.
func (c *core) wait(d time.Duration) {
	if c.giveUpAt.IsZero() {
		c.giveUpAt = c.run.Add(d)
	}
}

// giveUp gives up waiting: first for attempts that should long have ended, then
// for whoever should read the output.
func (c *core) giveUp() {
	c.giveUpAt = c.run.Add(settle)
	if c.sealed {
		c.ending.Unshown = true
		return
	}
	for _, id := range c.ids(func(e *entry) bool { return e.state == running || e.state == decided }) {
		e := c.entries[id]
		c.deadline.Remove(id)
		if e.state == decided {
			c.finish(e, e.result)
			continue
		}
		c.ending.Abandoned++
		c.finish(e, &task.Result{
			Task: e.task, Attempt: e.attempt, Worker: e.slot.ID, Outcome: task.Cancelled, Err: errAbandoned, End: c.now,
		})
	}
}

// withdraw takes a waiting task out of where it waits.
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
		c.policy.Remove(id)
	}
}

// notRun ends a task that no attempt will be made at any more.
func (c *core) notRun(e *entry) {
	c.finish(e, &task.Result{Task: e.task, Attempt: e.attempt, Outcome: task.NotRun, Before: e.before, End: c.now})
}

// cancel ends one task, wherever it is, and says whether there is one.
func (c *core) cancel(id uint64) bool {
	e := c.entries[id]
	if e == nil {
		return false
	}
	e.cancelled = true
	switch e.state {
	case running:
		c.terminate(e, errCancelled)
	case decided: // see recorded
	default:
		c.withdraw(e)
		c.finish(e, &task.Result{
			Task: e.task, Attempt: e.attempt, Outcome: task.Cancelled, Err: errCancelled, Before: e.before, End: c.now,
		})
	}
	return true
}

// runningIDs are the lowest n numbers of tasks that hold a slot.
func (c *core) runningIDs(n int) []uint64 {
	ids := c.ids(func(e *entry) bool { return e.slot.ID != 0 })
	return ids[:min(n, len(ids))]
}

// ids are the numbers of the unfinished tasks of which ok holds, in order.
func (c *core) ids(ok func(*entry) bool) []uint64 {
	var ids []uint64
	for id, e := range c.entries {
		if ok(e) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
