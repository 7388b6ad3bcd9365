package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// memoryGrace is how long an attempt that is asked to end for memory may take at most: what it
// holds, and goes on to take, is what others lack.
const memoryGrace = 500 * time.Millisecond

// machine holds starts back by the figures of the machine. The zero value has no bounds.
type machine struct {
	gauge         *sched.Machine // nil without bounds
	cfg           Machine
	samplePending bool // Effects.Sample was set, and Sampled is still to come

	// of the latest look at new figures

	blockedBy     task.Cause // why nothing may start until they change; "" if something may soon
	blockedFigure float64    // the load, or the number of free bytes

	ending *entry // the task that is being ended for memory
	stale  bool   // it ended while figures were on their way, so they may be those of before
}

// allow reports whether an attempt may start now, as far as the machine is concerned. If not, at is
// when one may, or zero, and new figures may be needed first.
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

// needsSample reports whether something depends on new figures.
func (c *Core) needsSample() bool {
	m := &c.pool.machine
	relieves := m.cfg.End && c.pool.running > 1 && c.end.phase == going
	return m.gauge != nil && !m.samplePending && (c.queue.blockedBy == sched.ForMachine || relieves)
}

// Sampled takes the number of processes that have something to do, and of free bytes.
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

// youngest returns the running task that has started last and is not being ended, unless it is
// the only one.
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

// freed notes that a task has given up its slot.
func (m *machine) freed(e *entry) {
	if m.ending == e {
		m.ending, m.stale = nil, m.samplePending
	}
}
