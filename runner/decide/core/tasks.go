package core

import (
	"cmp"
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

const (
	// A task is not tried again after maxLost lost attempts: perhaps its workers died of it.
	// Attempts that were ended for memory count, too.
	maxLost = 5
	// returnDelay is how much longer a task waits each time it comes back without having begun,
	// since perhaps no worker will really take it.
	returnDelay = 100 * time.Millisecond
)

// startNext starts an attempt if one can start now, and reports whether it did.
func (c *Core) startNext() bool {
	q := &c.queue
	c.pool.tokens.short, q.blockedBy, q.askAgain = false, sched.ForSlot, time.Time{}
	if c.end.phase > going || c.paused() || c.output.full() {
		return false
	}
	it, slot, wait := q.ready.Next(c.run)
	if slot == 0 {
		if wait == sched.ForToken && c.pool.aheadMax > 0 {
			wait = sched.ForSlot
		}
		q.blockedBy, q.askAgain = wait, q.ready.Again()
		return false
	}
	c.begin(c.entries[it.ID], slot)
	return true
}

// begin gives a task the slot for its next attempt.
func (c *Core) begin(e *entry, slot int) {
	c.queue.setState(e, running)
	if c.queue.lowest < c.queue.highest {
		c.queue.agingStarts++
	}
	at := c.pool.occupy(slot, e, c.run)
	e.attempt = attempt{slot: at.current, number: e.number + 1, startPending: c.exec.ReportsStarts}
	c.queue.caps.takeUnits(e)
	if c.pool.aheadMax == 0 || len(at.attempts) == 1 {
		c.beginTurn(e)
	} else if c.pool.recheckAt.IsZero() {
		c.pool.recheckAt = c.run.Add(longAfter)
	}
	if c.exec.Streams {
		at.stream.next = append(at.stream.next, e.toAttempt())
		c.serve(at)
		if at != c.pool.streams.swapping { // the taker gets it in this step
			c.wakeSlot(at)
		}
	} else {
		c.fx.Start = append(c.fx.Start, Start{e.toAttempt(), &e.tag})
	}
}

// Began reports that the process of an attempt has started.
func (c *Core) Began(a task.Attempt) {
	if e := c.entries[a.Task.ID]; e != nil && e.slot != nil && e.number == a.Number {
		c.noteStarted(e)
	}
}

// noteStarted tells the dispatcher, once, that an attempt has started or never will.
func (c *Core) noteStarted(e *entry) {
	if e.startPending {
		e.startPending = false
		c.queue.ready.Started(c.run, &e.item)
	}
}

// beginTurn begins an attempt when its turn in its slot has come.
func (c *Core) beginTurn(e *entry) {
	e.begunAt, e.begunRun = c.now, c.run
	retry := 0
	if n := len(e.before); n > 0 && !e.before[n-1].Outcome.Replaced() && !e.cameBack {
		retry = e.failures - int(e.task.Failures)
	}
	c.output.emit(task.Event{
		Kind: task.Started, ID: e.item.ID, Task: e.task, Slot: e.slot.ID, Host: e.slot.Host, Units: e.units, Attempt: e.number, Retries: retry,
	})
}

// Verdict says how the run continues after an attempt.
type Verdict uint8

// The verdicts.
const (
	Void  Verdict = iota // nothing: the run has given the attempt up
	Again                // another attempt
	Final                // the task is finished
)

// Decide takes the result of an attempt, which must be recorded before it takes effect. Unless the
// verdict is Void, Ended must follow; the task keeps its slot until then. So if crew is killed, at
// most one attempt of each slot is in doubt.
func (c *Core) Decide(r *task.Result) Verdict {
	e := c.entries[r.Task.ID]
	if e == nil {
		return Void
	}
	c.decideEnd(e, r)
	if e.again {
		return Again
	}
	return Final
}

// Ended takes the results of attempts and Effects.Record. If there is a recorder, they must
// be recorded already.
func (c *Core) Ended(results ...*task.Result) {
	for _, r := range results {
		e := c.entries[r.Task.ID]
		if e == nil { // the run has given it up
			continue
		}
		if e.result != r {
			c.decideEnd(e, r)
		}
		c.applyEnd(e)
	}
}

// decideEnd decides whether r finishes the task.
func (c *Core) decideEnd(e *entry, r *task.Result) {
	if e.state != running {
		panic(fmt.Sprintf("internal error: task %d is in state %d and has a result", e.item.ID, e.state))
	}
	if e.slot.Host != "" {
		r.Host = e.slot.Host
	}
	if e.sentAhead() && !r.Unbegun { // the end of the attempt before it is still to come
		c.beginTurn(e)
	}
	if r.Outcome.Replaced() && (e.cancelled != nil || c.end.phase >= stopping && !r.Unbegun) {
		r.Outcome = task.Cancelled // it would have been ended anyway
	}
	if r.Fault != nil && r.Outcome == task.OK {
		r.Outcome = task.Cancelled // a part of its output is missing
	}
	e.again = c.willRetry(e, r)
	if !e.again {
		r.Before, r.Omitted = e.before, e.omitted
	}
	if r.Outcome == task.Cancelled {
		r.Final = r.Final || e.cancelled != nil
		switch { // name the reason
		case e.cancelled != nil && e.cancelled != task.ErrCancelled:
			r.Err = e.cancelled
		case c.end.Reason == Requested && c.end.phase >= stopping:
			r.Err = cmp.Or(c.end.Err, r.Err)
		}
	}
	e.result = r
	c.queue.setState(e, decided)
	if r.Fault != nil {
		c.Abort(r.Fault)
	}
}

// applyEnd acts on a recorded decision: the task is finished, or waits for its next attempt.
func (c *Core) applyEnd(e *entry) {
	r := e.result
	if !e.again {
		c.finish(e, r)
		return
	}
	wait, before := time.Duration(0), e.failures-int(e.task.Failures)+e.replaced
	switch {
	case r.Unbegun && e.recalled:
	case r.Unbegun:
		wait = time.Duration(min(e.returned, 10)) * returnDelay
		e.returned++
	case r.Outcome.Replaced():
		before-- // willRetry has counted this attempt
	default:
		wait = c.backoff(e.failures)
		e.failures++
	}
	var dropped *task.Result
	if !r.Unbegun {
		if e.before, dropped = task.AppendAttempt(e.before, r); dropped != nil {
			e.omitted++
		}
	}
	if !e.sentAhead() { // otherwise there was no Started event
		c.output.emit(task.Event{
			Kind: task.Retried, ID: e.item.ID, Task: e.task, Result: r, Dropped: dropped, Attempt: e.number, Retries: before, Wait: wait,
			Took: c.run.Sub(e.begunRun),
		})
	}
	if e.cameBack = r.Unbegun; e.cameBack && (r.Host == "" || r.PID == 0) { // otherwise its worker has ended it
		e.number--
	}
	c.freeSlot(e)
	c.queue.delay(e, c.run.Add(wait))
	switch {
	case e.cancelled != nil:
		c.cancel(e, e.cancelled, false)
	case c.end.phase > going:
		c.queue.remove(e)
		c.notRun(e)
	}
	c.noteInterrupt(r)
}

// freeSlot gives up the task's slot.
func (c *Core) freeSlot(e *entry) {
	at := c.pool.vacate(e)
	c.noteStarted(e)
	if m := &c.pool.machine; m.ending == e {
		m.ending, m.stale = nil, m.samplePending
	}
	c.queue.ready.Done(at.id, &e.item, e.again)
	c.queue.caps.returnUnits(e)
	e.slot = nil
	if len(at.attempts) > 0 && at.attempts[0].sentAhead() {
		c.beginTurn(at.attempts[0])
	}
}

// willRetry reports whether another attempt follows. If the run drains, the task waits for that
// attempt and is not run; a resumed run makes the attempt.
func (c *Core) willRetry(e *entry, r *task.Result) bool {
	if r.Outcome.Replaced() && r.Fault == nil {
		if !r.Unbegun {
			e.replaced++
		}
		return e.replaced < maxLost
	}
	if !r.Outcome.Failed() || e.cancelled != nil || r.Fault != nil || e.failures >= c.cfg.Retry.Max {
		return false
	}
	if r.BadCommand && c.cfg.Halt.SameCommand {
		return false // the run ends
	}
	return c.cfg.Retry.On == nil || c.cfg.Retry.On(r)
}

// backoff returns how long to wait after a failure that follows n others. The time grows
// exponentially, with full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
func (c *Core) backoff(n int) time.Duration {
	most := c.cfg.Retry.Delay
	for ; n > 0 && most < c.cfg.Retry.MaxDelay; n-- {
		most *= 2
	}
	return time.Duration(c.cfg.Retry.Jitter() * float64(min(most, c.cfg.Retry.MaxDelay)))
}

// finish gives a task its result, and releases the results that are now in order.
func (c *Core) finish(e *entry, r *task.Result) {
	id, ran, took := e.task.ID, 0, time.Duration(0)
	if e.slot != nil {
		if !e.sentAhead() {
			ran, took = e.number, c.run.Sub(e.begunRun)
		}
		e.again = false
		c.freeSlot(e)
	}
	c.queue.setState(e, nowhere)
	delete(c.entries, id)
	c.output.emit(task.Event{Kind: task.Finished, ID: id, Task: e.task, Result: r, Attempt: ran, Took: took})
	if c.cfg.Feed.Remember && (r.Outcome.Failed() || r.Outcome == task.Cancelled || r.Outcome == task.NotRun && r.Final) {
		c.queue.failed.remember(r, e.task)
	}
	if b := e.task.Block; b != nil && b.Free != nil {
		b.Free() // no attempt follows, even if the result is shown much later
	}
	c.output.release(id)
	if !r.FromEarlierRun() {
		c.noteInterrupt(r)
		if r.BadCommand && c.cfg.Halt.SameCommand {
			c.end.setReason(BadCommand, r, nil)
			c.advanceTo(draining, "")
		}
		c.checkHalt(r)
	}
	c.notifyFollowers(e, r)
	if c.end.phase == going { // afterwards, the abandoned queues still hold entries
		*e = entry{}
		c.spare = append(c.spare, e)
	}
}

// notRun finishes a waiting task without another attempt.
func (c *Core) notRun(e *entry) { c.finish(e, e.endResult(task.NotRun, nil, c.now)) }

// cancel ends a task in any state. A running attempt is asked to end or, with kill, killed.
func (c *Core) cancel(e *entry, why error, kill bool) {
	e.cancelled = why
	switch e.state {
	case running:
		c.terminate(e, why)
		if kill {
			c.kill(e)
		}
	case decided: // applyEnd cancels it if another attempt would follow
	default:
		c.queue.remove(e)
		r := e.endResult(task.Cancelled, why, c.now)
		r.Final = true
		c.finish(e, r)
	}
}
