package core

import (
	"math"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

const (
	// sampleEvery is how old the figures may be: a start needs a newer sample after that.
	sampleEvery = 100 * time.Millisecond
	// Near the bound of memory, the number of running tasks grows by at most one in growEvery.
	growEvery = 200 * time.Millisecond
	// smoothOver is the time constant of the average load.
	smoothOver = 500 * time.Millisecond
	// recentFor is how long it may take until the free memory shows how much a task needs.
	recentFor = time.Second
	// For reliefFor after a task was ended for memory, no more tasks run than were left then.
	reliefFor = 10 * time.Second
)

// machine holds starts back by the load and the free memory of the machine. Past a bound nothing
// starts, but one task may always run.
//
// The load is the average number of processes with work to do. Until the figures show otherwise,
// each running task counts as one such process: only the number of processes beyond the running
// tasks is averaged. So a burst of starts does not pass the bound before the figures show it, and tasks
// that only sleep get to run side by side.
//
// If free memory is near its bound, the number of running tasks grows by at most one in 0.2 s, but a task
// that ends is replaced at once. It is near in two cases: if less than twice the bound would remain once
// each task added within the last second has taken as much as the bound; and if as much as was taken
// within the last second, taken once more, would pass the bound.
type machine struct {
	cfg Machine

	running int       // tasks
	allowed int       // tasks that may run near the bound of memory, until growAt
	peak    int       // most tasks since the last sample
	growAt  time.Time // when one more may run

	samplePending bool      // Effects.Sample was set, and Sampled has not come yet
	sampled       time.Time // zero before the first sample
	excess        float64   // average number of processes beyond one for each task
	free          int64
	recent        []sample // of the last recentFor

	relief     int // tasks that may run until twice the bound is free, or reliefFor has passed; 0 for no limit
	relievedAt time.Time

	// result of the latest check of the figures

	blockedBy     task.Cause // why nothing may start until the figures change; "" if something may soon
	blockedFigure float64    // the load, or the number of free bytes

	ending *entry // the task that is being ended for memory
	stale  bool   // that task ended after the pending sample was requested, which may not show it
}

type sample struct {
	at      time.Time
	free    int64
	running int
}

// isBounded reports whether there is a bound.
func (m *machine) isBounded() bool { return m.cfg.Load > 0 || m.cfg.Memory > 0 }

// sample takes the figures at now: how many processes have work to do, and how many bytes are free.
func (m *machine) sample(now time.Time, processes float64, free int64) {
	keep := 0.0
	if !m.sampled.IsZero() {
		keep = math.Exp(-now.Sub(m.sampled).Seconds() / smoothOver.Seconds())
	}
	m.excess = keep*m.excess + (1-keep)*(processes-float64(m.running))
	m.sampled, m.free = now, free
	m.recent = slices.DeleteFunc(m.recent, func(s sample) bool { return now.Sub(s.at) > recentFor })
	m.recent = append(m.recent, sample{now, free, m.running})
	m.allowed, m.peak = m.peak, m.running
	if free >= 2*m.cfg.Memory || now.Sub(m.relievedAt) >= reliefFor {
		m.relief = 0
	}
}

// due returns when the next sample may be needed.
func (m *machine) due() time.Time { return m.sampled.Add(sampleEvery) }

// started reports that a task has started.
func (m *machine) started(now time.Time) {
	m.running++
	m.peak = max(m.peak, m.running)
	if m.running > m.allowed {
		m.allowed, m.growAt = m.running, now.Add(growEvery)
	}
}

// allow reports whether another task may start now. If not, at is when it may if the figures do not
// change; zero if that depends on new figures.
func (m *machine) allow(now time.Time) (ok bool, at time.Time) {
	if m.running > 0 && m.isBounded() && !now.Before(m.due()) {
		return false, at
	}
	m.blockedBy = ""
	switch past, near := m.memory(); {
	case m.running == 0:
	case m.cfg.Load > 0 && m.load() >= m.cfg.Load:
		m.blockedBy, m.blockedFigure = task.ByLoad, max(0, m.load())
	case past:
		m.blockedBy, m.blockedFigure = task.ByMemory, float64(m.free)
	case near && m.running >= m.allowed && now.Before(m.growAt):
		return false, m.growAt
	}
	return m.blockedBy == "", at
}

// load returns the expected load.
func (m *machine) load() float64 { return m.excess + float64(m.running) }

// memory reports whether the free memory is past its bound, or near it.
func (m *machine) memory() (past, near bool) {
	if m.cfg.Memory == 0 {
		return false, false
	}
	most, least := m.free, m.running // within the last second
	for _, s := range m.recent {
		most, least = max(most, s.free), min(least, s.running)
	}
	took, grown := most-m.free, int64(m.running-least)
	past = m.free < m.cfg.Memory || m.relief > 0 && m.running >= m.relief
	return past, m.free-grown*m.cfg.Memory < 2*m.cfg.Memory || m.free-took < m.cfg.Memory
}

// needsSample reports whether a decision depends on new figures.
func (c *Core) needsSample() bool {
	m := &c.pool.machine
	relieves := m.cfg.End && c.pool.running > 1 && c.end.phase == going
	return m.isBounded() && !m.samplePending && (c.queue.blockedBy == sched.ForMachine || relieves)
}

// Sampled takes the figures of the machine: how many processes have work to do, and how many bytes
// are free.
func (c *Core) Sampled(processes float64, free int64) {
	m := &c.pool.machine
	m.samplePending = false
	m.sample(c.run, processes, free)
	if m.stale {
		m.stale = false
		return
	}
	if e := c.youngest(); e != nil && m.cfg.End && m.ending == nil && m.free < m.cfg.Memory/2 && c.end.phase == going {
		m.ending = e
		m.relief, m.relievedAt = max(1, m.running-1), c.run
		c.terminate(e, task.ErrMemory)
	}
}

// youngest returns the running task that started last, of the tasks that are not being ended. It is
// nil if there are fewer than two.
func (c *Core) youngest() (last *entry) {
	n := 0
	for _, e := range c.entries {
		if e.state != running || e.asked {
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
