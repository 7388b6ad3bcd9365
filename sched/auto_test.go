package sched

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load is how long tasks take alone, on average, and how many times as long while n of them run.
type load struct {
	alone float64 // seconds
	slow  func(n, now float64) float64
}

var loads = map[string]load{
	"waits":     {0.3, func(float64, float64) float64 { return 1 }},
	"computes":  {0.2, func(n, _ float64) float64 { return max(1, n/4) }}, // on 4 processors
	"mixes":     {0.1, func(n, _ float64) float64 { return 0.8 + 0.2*max(1, n/4) }},
	"collapses": {0.15, func(n, _ float64) float64 { return max(1, n/16) * max(1, n/16) }},
	"long":      {3, func(n, _ float64) float64 { return max(1, n/24) }},
	"turns": {0.1, func(n, now float64) float64 { // from waiting to computing
		if now < 15 {
			return 1
		}
		return max(1, n/4) * max(1, n/16)
	}},
}

// ends is a heap of the times at which running tasks end, in seconds that they would take alone.
type ends []float64

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(float64)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// speedOf returns how many tasks a second end between two times, with a fixed number of workers if a is nil.
func speedOf(r *rand.Rand, l load, workers int, a *Auto, from, to float64) float64 {
	const every = 0.25
	var running ends
	var s Sample
	counted, now, alone, sample, busy := 0, 0.0, 0.0, every, 0.0
	for now < to {
		if a != nil {
			workers = a.Workers()
		}
		for len(running) < workers {
			heap.Push(&running, alone+l.alone*(0.2+1.6*r.Float64()))
		}
		slow, n := l.slow(float64(len(running)), now), float64(len(running))
		if end := now + (running[0]-alone)*slow; end > sample {
			alone, busy, now = alone+(sample-now)/slow, busy+n*(sample-now), sample
			if sample += every; a != nil {
				s.Busy = time.Duration(busy * float64(time.Second))
				a.Next(s, time.Duration(every*float64(time.Second)))
			}
			continue
		} else {
			busy, now = busy+n*(end-now), end
		}
		alone = heap.Pop(&running).(float64)
		s.Good++
		s.Ran++
		if now >= from && now < to {
			counted++
		}
	}
	return float64(counted) / (to - from)
}

// TestAuto compares the speed after half a minute with that of the best fixed number of workers.
func TestAuto(t *testing.T) {
	for name, l := range loads {
		from := 30.0
		if name == "turns" {
			from = 90
		}
		best, by := 0.0, 0
		for _, n := range []int{1, 2, 4, 8, 12, 16, 20, 24, 32, 64, 128} {
			if speed := speedOf(rand.New(rand.NewPCG(1, 1)), l, n, nil, from, from+600); speed > best*1.01 {
				best, by = speed, n
			}
		}
		for seed := range uint64(30) {
			a := NewAuto(4, 1, 128)
			got := speedOf(rand.New(rand.NewPCG(seed, 2)), l, 0, a, from, from+60)
			t.Logf("%-9s best fixed %3d: %6.1f/s; auto %3d: %6.1f/s, %.2f", name, by, best, a.Workers(), got, got/best)
			require.GreaterOrEqual(t, got, 0.85*best, "%s, seed %d", name, seed)
		}
	}
}
