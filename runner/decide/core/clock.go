package core

import (
	"cmp"
	"time"

	"crew/runner/decide/task"
)

// clock holds the time of the current step.
type clock struct {
	time task.Clock
	now  time.Time // on the machine's clock
	run  time.Time // on the run's clock, which stands still during suspension; for deadlines
	at   time.Time // for events: now or, during suspension, when that began
}

func (k *clock) tick(now time.Time) {
	k.now, k.run = now, k.time.At(now)
	k.at = k.time.Real(k.run)
}

// reached reports whether at, a time on the run's clock, has come. The zero time is never.
func (k *clock) reached(at time.Time) bool { return !at.IsZero() && !k.run.Before(at) }

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// setTimer schedules the next overdue call for a running attempt that last wrote something at
// heard. It does nothing if the executor enforces the limits itself.
func (c *Core) setTimer(e *entry, heard time.Time) {
	if c.pool.noTimers || e.task.Protocol != task.NoProtocol {
		return
	}
	at := c.timeoutAt(e)
	if idle := c.cfg.Limit.Idle; idle > 0 {
		at = earlier(at, heard.Add(idle))
	}
	if !at.IsZero() {
		c.queue.due.Push(&e.timer, at)
	}
}

// timeoutAt returns when a running attempt reaches its timeout; zero for never.
func (c *Core) timeoutAt(e *entry) time.Time {
	timeout := cmp.Or(e.task.Timeout, c.cfg.Limit.Timeout)
	if timeout <= 0 {
		return time.Time{}
	}
	return e.begunRun.Add(timeout)
}

// overdue takes the next step in ending a running task, or asks how long it has been silent.
func (c *Core) overdue(e *entry) {
	switch {
	case e.ladder != task.NotAsked:
		c.kill(e)
	case c.reached(c.timeoutAt(e)):
		c.terminate(e, task.ErrTimeout)
	default:
		c.fx.Quiet = append(c.fx.Quiet, e.toAttempt())
	}
}

// Quiet takes the answer to Effects.Quiet: for how long an attempt has written nothing.
func (c *Core) Quiet(a task.Attempt, silent time.Duration) {
	e, idle := c.entries[a.Task.ID], c.cfg.Limit.Idle
	switch {
	case e == nil || e.state != running || e.number != a.Number || e.ladder != task.NotAsked:
	case silent >= idle:
		c.terminate(e, task.Silent(idle))
	default:
		c.setTimer(e, c.run.Add(-silent))
	}
}
