package core

import (
	"math"
	"slices"
	"testing"
	"time"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

// naiveMachine keeps all samples, and looks at all of them for each answer.
type naiveMachine struct {
	load    float64
	memory  int64
	samples []machineSample
	grown   time.Time
	running int
	capped  time.Time
	cap     int
}

type machineSample struct {
	at        time.Time
	processes float64
	free      int64
	running   int
	peak      int // most that ran until the next sample
}

func (n *naiveMachine) sample(at time.Time, processes float64, free int64) {
	n.samples = append(n.samples, machineSample{at, processes, free, n.running, n.running})
	n.samples = n.samples[max(0, len(n.samples)-100):]
}

func (n *naiveMachine) start(now time.Time) {
	last := &n.samples[len(n.samples)-1]
	if n.running++; n.running > n.allowed() {
		n.grown = now
	}
	last.peak = max(last.peak, n.running)
}

// allowed returns how many tasks ran at once since the sample before the latest one.
func (n *naiveMachine) allowed() int {
	return max(n.samples[len(n.samples)-1].peak, n.samples[max(0, len(n.samples)-2)].peak)
}

// expected returns the weighted mean of the processes beyond the tasks, plus the present tasks.
func (n *naiveMachine) expected() float64 {
	sum, left := 0.0, 1.0
	for i, e := range slices.Backward(n.samples) {
		weight := left
		if i > 0 {
			keep := math.Exp(-e.at.Sub(n.samples[i-1].at).Seconds() / 0.5)
			weight, left = left*(1-keep), left*keep
		}
		sum += weight * (e.processes - float64(e.running))
	}
	return sum + float64(n.running)
}

// stale reports whether a start needs a newer sample.
func (n *naiveMachine) stale(now time.Time) bool {
	return n.running > 0 && now.Sub(n.samples[len(n.samples)-1].at) >= 100*time.Millisecond
}

// may follows the documentation of machine.
func (n *naiveMachine) may(now time.Time) (ok bool, at time.Time) {
	last := n.samples[len(n.samples)-1]
	if n.stale(now) {
		return false, at
	}
	free, load, took, more := last.free, n.expected(), int64(0), 0
	for _, e := range n.samples {
		if last.at.Sub(e.at) <= time.Second {
			took, more = max(took, e.free-free), max(more, n.running-e.running)
		}
	}
	isPast := n.load > 0 && load >= n.load || n.memory > 0 && (free < n.memory || n.cap > 0 && n.running >= n.cap)
	isNear := n.memory > 0 && (free-int64(more)*n.memory < 2*n.memory || free-took < n.memory)
	grown := n.grown.Add(200 * time.Millisecond)
	switch {
	case n.running == 0:
		return true, at
	case isPast:
		return false, at
	case isNear && n.running >= n.allowed() && now.Before(grown):
		return false, grown
	}
	return true, at
}

func TestMachineAgainstNaive(t *testing.T) {
	steps := crewtest.Rounds(20) * 1000
	random := crewtest.Rand(t, 0)
	for _, bounds := range [...]struct {
		load   float64
		memory int64
	}{{4, 0}, {0, 1000}, {2.5, 700}} {
		m, n := &machine{cfg: Machine{Load: bounds.load, Memory: bounds.memory}}, &naiveMachine{load: bounds.load, memory: bounds.memory}
		now, free, others := time.Unix(1e9, 0), int64(5000), 0.0
		sample := func() {
			free = min(8000, max(0, free+random.Int64N(801)-400))
			others = min(5, max(-5, others+float64(random.IntN(3)-1)))
			processes := max(0, others+float64(n.running))
			m.sample(now, processes, free)
			n.sample(now, processes, free)
			if free >= 2*bounds.memory || now.Sub(n.capped) >= 10*time.Second {
				n.cap = 0
			}
		}
		sample()
		starts, held, alone := 0, 0, 0
		for range steps / 3 {
			now = now.Add(time.Duration(random.IntN(60)) * time.Millisecond)
			switch random.IntN(8) {
			case 0, 1, 2:
				now = now.Add(50 * time.Millisecond)
				sample()
			case 3:
				if n.running > 0 {
					m.running--
					n.running--
				}
			case 4:
				require.InDelta(t, n.expected(), m.load(), 1e-6)
				if free < bounds.memory/2 && n.running > 1 {
					m.relief, m.relievedAt = n.running-1, now
					n.cap, n.capped = n.running-1, now
				}
			default:
				if load := n.expected(); math.Abs(load-bounds.load) < 1e-9 {
					continue // rounding decides
				}
				ok, at := n.may(now)
				got, gotAt := m.allow(now)
				if ok != got || !at.Equal(gotAt) {
					t.Fatalf("allow is %v, %v, want %v, %v; %+v", got, gotAt, ok, at, *m)
				}
				require.True(t, n.stale(now) || (m.blockedBy == "") == (ok || !at.IsZero()))
				if !ok {
					held++
					continue
				}
				if starts++; n.running == 0 {
					alone++
				}
				m.started(now)
				n.start(now)
			}
		}
		require.Equal(t, n.running, m.running)
		require.Greater(t, held, steps/300)
		require.Greater(t, starts-alone, steps/300)
	}
}
