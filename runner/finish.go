package runner

import (
	"fmt"
	"time"

	"crew/runner/task"
)

// decide takes the result of an attempt and returns whether it finishes its task.
// The task keeps its slot until recorded.
func (c *core) decide(e *entry, r *task.Result) (final bool) {
	e.mustBe(running)
	if e.slot.Host != "" {
		r.Host = e.slot.Host
	}
	if r.Outcome == task.Lost && (e.cancelled || c.phase >= stopping) {
		r.Outcome = task.Cancelled // it would have been ended anyway
	}
	if c.usage != nil && r.Outcome != task.Lost {
		c.usage.saw(e.item.Key, r)
	}
	if r.Fault != nil && r.Outcome == task.OK {
		r.Outcome = task.Cancelled // a part of its output is missing
	}
	c.deadline.Remove(e.item.ID)
	e.again = c.retries(e, r)
	if !e.again {
		r.Before, r.Omitted = e.before, e.omitted
	}
	r.Final = e.cancelled && r.Outcome == task.Cancelled
	e.result = r
	c.set(e, decided)
	if r.Fault != nil {
		c.abort(r.Fault)
	}
	return !e.again
}

func (e *entry) mustBe(s state) {
	if e.state != s {
		panic(fmt.Sprintf("internal error: task %d is in state %d instead of %d", e.item.ID, e.state, s))
	}
}

// recorded acts on a decision that is on record: the task is finished, or waits
// for its next attempt.
func (c *core) recorded(e *entry) {
	e.mustBe(decided)
	id, r := e.item.ID, e.result
	if !e.again {
		c.finish(e, r)
		return
	}
	wait, before := time.Duration(0), e.failures-e.task.Failures+e.losses
	switch {
	case r.Unbegun:
		wait = time.Duration(min(e.returned, 10)) * returnedWait
		e.returned++
	case r.Outcome == task.Lost:
		before-- // it counts already
	default:
		wait = c.backoff(e.failures)
		e.failures++
	}
	var dropped *task.Result
	if !r.Unbegun {
		var full bool
		if e.before, dropped, full = task.KeepAttempt(e.before, r); full {
			e.omitted++
		}
	}
	c.emit(task.Event{
		Kind: task.Retried, ID: id, Task: e.task, Result: r, Dropped: dropped, Attempt: e.attempt, Retries: before, Wait: wait,
		Took: c.run.Sub(e.begun),
	})
	if e.back = r.Unbegun; e.back && r.Host == "" {
		e.attempt-- // other machines know attempts by their number
	}
	c.vacate(e)
	c.set(e, delayed)
	e.due = c.run.Add(wait)
	c.delayed.Push(id, e.due)
	switch {
	case e.cancelled:
		c.cancel(id, false)
	case c.phase > going:
		c.withdraw(e)
		c.notRun(e)
	}
	c.interrupt(r)
}

// vacate gives up the task's slot, if it holds one.
func (c *core) vacate(e *entry) {
	if e.slot == nil {
		return
	}
	c.unhold(e)
	c.tokens.hold(e.slot.ID, -1)
	c.policy.Done(e.slot.ID, e.item, e.again)
	e.slot = nil
	c.unlimit(e)
}

// unlimit queues the next parked task of the key.
func (c *core) unlimit(e *entry) {
	if c.limit == nil {
		return
	}
	if it, ok := c.limit.Done(e.item.Key); ok {
		c.policy.Push(it)
		c.set(c.entries[it.ID], queued)
	}
}

// retries reports whether the task has another attempt after this one. If the run
// drains, the task waits for it and is not run; a resumed run makes that attempt.
func (c *core) retries(e *entry, r *task.Result) bool {
	if r.Outcome == task.Lost && r.Fault == nil {
		if !r.Unbegun {
			e.losses++
		}
		return e.losses < poison
	}
	if !r.Outcome.Failed() || e.cancelled || r.Fault != nil || e.failures >= c.cfg.Retry.Max {
		return false
	}
	if r.BadCommand && c.cfg.SameCommand {
		return false // the run ends
	}
	return c.cfg.Retry.On == nil || c.cfg.Retry.On(r)
}

// backoff returns how long to wait after a failure that follows n others. It
// grows exponentially, with full jitter ("Exponential Backoff And Jitter", AWS
// Architecture Blog, 2015).
func (c *core) backoff(n int) time.Duration {
	most := c.cfg.Retry.Delay
	for ; n > 0 && most < c.cfg.Retry.MaxDelay; n-- {
		most *= 2
	}
	return time.Duration(c.cfg.Retry.Jitter() * float64(min(most, c.cfg.Retry.MaxDelay)))
}

// finish gives a task its outcome and releases the results that are in order now.
func (c *core) finish(e *entry, r *task.Result) {
	id, ran, took := e.task.ID, 0, time.Duration(0)
	if e.slot != nil {
		ran, took = e.attempt, c.run.Sub(e.begun)
		e.again = false
		c.vacate(e)
	}
	c.set(e, nowhere)
	delete(c.entries, id)
	ev := c.event(task.Finished, id, e.task)
	ev.Result, ev.Attempt, ev.Took = r, ran, took
	c.stats.Apply(ev)
	if c.cfg.Feed.Remember && (r.Outcome.Failed() || r.Outcome == task.Cancelled) {
		c.memory.keep(r, e.task)
	}
	if b := e.task.Block; b != nil && b.Free != nil {
		b.Free() // no attempt follows, however long the result waits to be shown
	}
	e.task, e.result, e.before, e.handle = nil, nil, nil, nil
	if c.phase == going { // later, a goroutine may still hold an entry that was given up
		c.spare = append(c.spare, e)
	}
	c.release(id)
	c.goOn(id, r.Outcome)
	if r != r.Task.Done {
		c.judge(r)
	}
}

// release emits which results may be shown after a task has finished. One event
// covers them all: there may be as many as the window is long.
func (c *core) release(id uint64) {
	first, next := id, id+1
	if c.order != nil {
		first = c.order.Base()
		c.order.Put(id)
		next = c.order.Base()
	}
	if next > first {
		ev := c.event(task.Released, first, nil)
		ev.Last = next - 1
		c.stats.Apply(ev)
	}
}

// balance panics unless every admitted task has exactly one outcome.
func (c *core) balance() {
	s := &c.stats
	if s.Finished() != s.Admitted || s.Released != s.Admitted || len(c.entries) != 0 || c.running != 0 {
		panic(fmt.Sprintf("internal error: %d tasks admitted, %d finished, %d released, %d left, %d running",
			s.Admitted, s.Finished(), s.Released, len(c.entries), c.running))
	}
}
