package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// memoryGrace bounds the grace period of an attempt that is ended for memory, since meanwhile it
// takes the memory that others lack.
const memoryGrace = 500 * time.Millisecond

// machine holds starts back while the machine is too busy. The zero value has no bounds.
type machine struct {
	gauge         *sched.Machine // nil without bounds
	cfg           Machine
	samplePending bool // Effects.Sample was set, and Sampled has not come yet

	// result of the latest check of the figures

	blockedBy     task.Cause // why nothing may start until the figures change; "" if something may soon
	blockedFigure float64    // the load, or the number of free bytes

	ending *entry // the task that is being ended for memory
	stale  bool   // that task ended after the pending sample was requested, which may not show it
}

// allow reports whether the machine has capacity for another attempt now. If not, at is when it
// has; zero if that depends on new figures.
func (m *machine) allow(now time.Time) (ok bool, at time.Time) {
	if !m.gauge.Alone() && !now.Before(m.gauge.Due()) {
		return false, at
	}
	ok, at = m.gauge.May(now)
	switch m.blockedBy = ""; {
	case ok, !at.IsZero():
	case m.gauge.ByMemory():
		m.blockedBy, m.blockedFigure = task.ByMemory, float64(m.gauge.Free())
	default:
		m.blockedBy, m.blockedFigure = task.ByLoad, m.gauge.Load()
	}
	return ok, at
}

// needsSample reports whether a decision depends on new figures.
func (c *Core) needsSample() bool {
	m := &c.pool.machine
	relieves := m.cfg.End && c.pool.running > 1 && c.end.phase == going
	return m.gauge != nil && !m.samplePending && (c.queue.blockedBy == sched.ForMachine || relieves)
}

// Sampled takes the figures of the machine: how many processes have work to do, and how many bytes
// are free.
func (c *Core) Sampled(processes float64, free int64) {
	m := &c.pool.machine
	m.samplePending = false
	m.gauge.Sample(c.run, processes, free)
	if m.stale {
		m.stale = false
		return
	}
	if e := c.youngest(); e != nil && m.cfg.End && m.ending == nil && m.gauge.Short() && c.end.phase == going {
		m.ending = e
		m.gauge.Relieve(c.run)
		c.terminate(e, task.ErrMemory)
	}
}

// youngest returns the running task that started last, of the tasks that are not being ended. It is
// nil if there are fewer than two.
func (c *Core) youngest() (last *entry) {
	n := 0
	for _, e := range c.entries {
		if e.state != running || e.ladder != task.NotAsked {
			continue
		}
		n++
		if last == nil || e.begunRun.After(last.begunRun) || e.begunRun.Equal(last.begunRun) && e.item.ID > last.item.ID {
			last = e
		}
	}
	if n < 2 {
		return nil
	}
	return last
}
