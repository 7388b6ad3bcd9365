package core

import (
	"time"

	"crew/runner/task"
	"crew/sched"
)

// memoryGrace is how long an attempt that is asked to end for memory may take at most: what it
// holds, and goes on to take, is what others lack.
const memoryGrace = 500 * time.Millisecond

// machine holds starts back by the figures of the machine. The zero value has no bounds.
type machine struct {
	gauge *sched.Machine // nil without bounds
	cfg   Machine
	asked bool // Effects.Sample was set, and Sampled is still to come

	// of the latest look for what may start

	by     task.Cause // why nothing may until the figures change; "" if something may soon, or nothing waits for it
	until  time.Time  // when the next may, near a bound
	sample bool       // figures are needed first

	// of the latest look at new figures

	last   task.Cause
	figure float64 // the load, or the number of free bytes

	ending *entry // the task that is being ended for memory
	stale  bool   // it ended while figures were on their way, so they may be those of before
}

func newMachine(cfg Machine) (m machine) {
	if m.cfg = cfg; cfg.Load > 0 || cfg.Memory > 0 {
		m.gauge = sched.NewMachine(cfg.Load, cfg.Memory)
	}
	return m
}

// allow reports whether an attempt may start now, as far as the machine is concerned.
func (m *machine) allow(now time.Time) bool {
	if m.sample = !m.gauge.Alone() && !now.Before(m.gauge.Due()); m.sample {
		m.by = m.last
		return false
	}
	ok, until := m.gauge.May(now)
	switch m.until = until; {
	case ok, !until.IsZero():
	case m.gauge.ByMemory():
		m.by, m.figure = task.ByMemory, float64(m.gauge.Free())
	default:
		m.by, m.figure = task.ByLoad, m.gauge.Load()
	}
	m.last = m.by
	return ok
}

// forget forgets what the latest look has found.
func (m *machine) forget() { m.by, m.until, m.sample = "", time.Time{}, false }

// needs reports whether something depends on new figures.
func (c *Core) needs() bool {
	m := &c.pool.machine
	relieves := m.cfg.End && c.pool.running > 1 && c.end.phase == going
	return m.gauge != nil && !m.asked && (m.sample || m.by != "" || !m.until.IsZero() || relieves)
}

// measure asks for figures once they are needed.
func (c *Core) measure() {
	if m := &c.pool.machine; c.needs() && !c.time.Stopped() && !c.run.Before(m.gauge.Due()) {
		m.asked, c.fx.Sample = true, true
	}
}

// measureAt returns when to look at the machine again. The zero time is never.
func (c *Core) measureAt() time.Time {
	if m := &c.pool.machine; c.needs() {
		return earlier(m.until, m.gauge.Due())
	}
	return time.Time{}
}

// Sampled takes the number of processes that have something to do, and of free bytes.
func (c *Core) Sampled(processes float64, free int64) {
	m := &c.pool.machine
	m.asked = false
	m.gauge.Sample(c.run, processes, free)
	if m.stale {
		m.stale = false
		return
	}
	if e := c.youngest(); e != nil && m.cfg.End && m.ending == nil && m.gauge.Short() && c.end.phase == going {
		m.ending = e
		m.gauge.Relieve(c.run)
		c.terminateWithin(e, task.ErrMemory, min(memoryGrace, c.grace(e)))
	}
}

// youngest returns the running task that has started last and is not being ended, unless it is
// the only one.
func (c *Core) youngest() (last *entry) {
	n := 0
	for _, e := range c.entries {
		if e.state != running || e.ladder != task.Untouched {
			continue
		}
		n++
		if last == nil || e.begun.After(last.begun) || e.begun.Equal(last.begun) && e.item.ID > last.item.ID {
			last = e
		}
	}
	if n < 2 {
		return nil
	}
	return last
}

// gone notes that a task has given up its slot.
func (m *machine) gone(e *entry) {
	if m.ending == e {
		m.ending, m.stale = nil, m.asked
	}
}

// byMachine says that tasks wait for the load to fall, or for free memory.
func (c *Core) byMachine(b *task.Blocking) {
	m := &c.pool.machine
	b.By, b.Figure, b.Bound = m.by, m.figure, m.cfg.Load
	if m.by == task.ByMemory {
		b.Bound = float64(m.cfg.Memory)
	}
}
