package runner

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"crew/runner/task"
)

// drain starts nothing more; what waits is not run.
func (c *core) drain(now time.Time, why string) {
	if c.draining {
		return
	}
	c.draining = true
	retries := len(c.ids(func(e *entry) bool { return e.state != running && e.attempt > 0 }))
	c.emit(task.Event{Kind: task.Draining, At: now, Running: c.runningIDs(10), Retries: retries, Text: why})
	for _, id := range c.ids(func(e *entry) bool { return e.state != running }) {
		e := c.entries[id]
		c.takeOut(e)
		c.notRun(e, now)
	}
}

// stop ends what runs, after drain.
func (c *core) stop(now time.Time, why string) {
	c.drain(now, why)
	if c.stopping {
		return
	}
	c.stopping = true
	if c.running > 0 {
		c.emit(task.Event{Kind: task.Stopping, At: now, Running: c.runningIDs(10), Text: why})
	}
}

// abort ends the run because crew itself cannot go on; the first reason counts.
// What runs may finish, except where nobody reads the results any more.
func (c *core) abort(err error, now time.Time) {
	if c.ending.Err == nil {
		c.ending.Err = err
	} else if !errors.Is(err, syscall.EPIPE) {
		c.emit(task.Event{Kind: task.Notice, At: now, Text: err.Error()})
	}
	if errors.Is(err, syscall.EPIPE) {
		c.told = true
		c.stop(now, signalName(int(syscall.SIGPIPE)))
		return
	}
	why := ""
	if c.running > 0 { // else it is said soon enough, at the end
		why = err.Error()
	}
	c.drain(now, why)
}

// abandon gives up waiting for attempts that should long have ended.
func (c *core) abandon(now time.Time) {
	for _, id := range c.runningIDs(len(c.entries)) {
		e := c.entries[id]
		c.ending.Abandoned++
		c.running--
		c.policy.Done(e.worker, e.item, false)
		r := &task.Result{Task: e.task, Attempt: e.attempt, Worker: e.worker, Outcome: task.Cancelled, Err: errAbandoned, End: now}
		e.worker = 0
		c.unlimit(e)
		c.finish(e, r, now)
	}
}

// takeOut takes a waiting task out of where it waits.
func (c *core) takeOut(e *entry) {
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

// runningIDs are the lowest n numbers of running tasks.
func (c *core) runningIDs(n int) []uint64 {
	ids := c.ids(func(e *entry) bool { return e.state == running })
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

var (
	errCancelled = errors.New("cancelled")
	errAbandoned = errors.New("did not end in time")
)

// apply does what a command asks for.
func (c *core) apply(cmd task.Command, now time.Time) {
	switch cmd.Op {
	case task.Drain, task.Stop, task.Kill:
		c.told = true
		if cmd.Signal != 0 {
			c.ending.Signal = cmd.Signal
		}
		if cmd.Op == task.Drain {
			c.drain(now, signalName(cmd.Signal))
		} else {
			c.stop(now, signalName(cmd.Signal))
		}
	case task.Resize:
		c.resize(cmd.N, now)
	case task.Grow:
		c.resize(c.workers+cmd.N, now)
	case task.Pause:
		c.paused = true
	case task.Resume:
		c.paused = false
	case task.Cancel:
		c.cancel(cmd.ID, now)
	}
}

// resize sets the pool's size, at least 1. Busy workers past it run out.
func (c *core) resize(n int, now time.Time) {
	n = max(n, 1)
	if n == c.workers {
		return
	}
	c.workers = n
	c.policy.Resize(n)
	c.emit(task.Event{Kind: task.Resized, At: now, Worker: n})
}

// cancel ends one task, wherever it is.
func (c *core) cancel(id uint64, now time.Time) {
	e := c.entries[id]
	if e == nil {
		return
	}
	e.cancelled = true
	if e.state == running {
		c.cancels = append(c.cancels, id)
		return
	}
	c.takeOut(e)
	c.finish(e, &task.Result{Task: e.task, Attempt: e.attempt, Outcome: task.Cancelled, Err: errCancelled, End: now}, now)
}
