package sched

import (
	"math"
	"slices"
	"time"
)

const (
	// SampleEvery is how old the figures of a Machine may be: a start needs a newer sample after
	// that.
	SampleEvery = 100 * time.Millisecond
	// Near a bound, the number of running tasks grows by at most one in growEvery.
	growEvery = 200 * time.Millisecond
	// smoothOver is the time constant of the average load.
	smoothOver = 500 * time.Millisecond
	// recentFor is how long it may take until the free memory shows how much a task needs.
	recentFor = time.Second
	// For reliefFor after Relieve, no more tasks run than were left then.
	reliefFor = 10 * time.Second
)

// Machine holds starts back by the load and the free memory of the machine. Past a bound nothing
// starts. Near a bound the number of running tasks grows by at most one in 0.2 s, but a task that
// ends is replaced at once. So a burst of starts does not pass a bound before the figures show it,
// tasks that only sleep get to run side by side, and short tasks lose no time. One task may always
// run. A Machine is not safe for concurrent use.
//
// The load is the average number of processes with work to do. Until the figures show otherwise,
// each running task counts as one such process: only the number of processes beyond the running
// tasks is averaged. The load is near its bound if one more task would pass it.
//
// Free memory is near its bound in two cases: if less than twice the bound would remain once each
// task added within the last second has taken as much as the bound; and if as much as was taken
// within the last second, taken once more, would pass the bound.
type Machine struct {
	// configuration

	load   float64 // 0 for no bound
	memory int64   // 0 for no bound

	// state

	running int       // tasks
	allowed int       // tasks that may run near a bound, until growAt
	peak    int       // most tasks since the last sample
	growAt  time.Time // when one more may run

	sampled time.Time // zero before the first sample
	excess  float64   // average number of processes beyond one for each task
	free    int64
	recent  []sample // of the last recentFor

	relief     int // tasks that may run until twice the bound is free, or reliefFor has passed; 0 for no limit
	relievedAt time.Time
}

type sample struct {
	at      time.Time
	free    int64
	running int
}

// zone says how close a figure is to its bound.
type zone uint8

const (
	far zone = iota
	near
	past
)

// NewMachine returns a Machine with bounds for the load and for the free bytes; 0 for no bound.
func NewMachine(load float64, free int64) *Machine { return &Machine{load: load, memory: free} }

// Sample takes the figures at now: how many processes have work to do, and how many bytes are free.
func (m *Machine) Sample(now time.Time, processes float64, free int64) {
	keep := 0.0
	if !m.sampled.IsZero() {
		keep = math.Exp(-now.Sub(m.sampled).Seconds() / smoothOver.Seconds())
	}
	m.excess = keep*m.excess + (1-keep)*(processes-float64(m.running))
	m.sampled, m.free = now, free
	m.recent = slices.DeleteFunc(m.recent, func(s sample) bool { return now.Sub(s.at) > recentFor })
	m.recent = append(m.recent, sample{now, free, m.running})
	m.allowed, m.peak = m.peak, m.running
	if free >= 2*m.memory || now.Sub(m.relievedAt) >= reliefFor {
		m.relief = 0
	}
}

// Due returns when the next Sample may be needed; the zero time means at once.
func (m *Machine) Due() time.Time {
	if m.sampled.IsZero() {
		return m.sampled
	}
	return m.sampled.Add(SampleEvery)
}

// Started reports that a task has started.
func (m *Machine) Started(now time.Time) {
	m.running++
	m.peak = max(m.peak, m.running)
	if m.running > m.allowed {
		m.allowed, m.growAt = m.running, now.Add(growEvery)
	}
}

// Ended reports that a task has ended.
func (m *Machine) Ended() { m.running-- }

// Alone reports whether no task runs. Then one may start whatever the figures are.
func (m *Machine) Alone() bool { return m.running == 0 }

// May reports whether a task may start by the latest figures, which must not be older than
// SampleEvery unless the Machine is Alone. If not, at is when it may if the figures do not change;
// zero for never.
func (m *Machine) May(now time.Time) (ok bool, at time.Time) {
	switch z := max(m.loadZone(), m.memoryZone()); {
	case m.running == 0:
		return true, at
	case z == past:
		return false, at
	case z == near && m.running >= m.allowed && now.Before(m.growAt):
		return false, m.growAt
	}
	return true, at
}

// ByMemory reports whether starts are held back by free memory, not by load.
func (m *Machine) ByMemory() bool { return m.memoryZone() > m.loadZone() }

// Load returns the expected load.
func (m *Machine) Load() float64 { return max(0, m.excess+float64(m.running)) }

// Free returns the latest number of free bytes.
func (m *Machine) Free() int64 { return m.free }

// Short reports whether less than half of the required memory is free.
func (m *Machine) Short() bool { return m.free < m.memory/2 }

// Relieve reports that a running task is being ended for lack of memory. No more tasks may then run
// than remain, until twice the bound is free, or ten seconds have passed.
func (m *Machine) Relieve(now time.Time) { m.relief, m.relievedAt = max(1, m.running-1), now }

func (m *Machine) loadZone() zone {
	load := m.excess + float64(m.running)
	switch {
	case m.load == 0:
		return far
	case load >= m.load:
		return past
	case load+1 > m.load:
		return near
	}
	return far
}

func (m *Machine) memoryZone() zone {
	if m.memory == 0 {
		return far
	}
	most, least := m.free, m.running // within the last second
	for _, s := range m.recent {
		most, least = max(most, s.free), min(least, s.running)
	}
	took, grown := most-m.free, int64(m.running-least)
	switch {
	case m.free < m.memory, m.relief > 0 && m.running >= m.relief:
		return past
	case m.free-grown*m.memory < 2*m.memory, m.free-took < m.memory:
		return near
	}
	return far
}
