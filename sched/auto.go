package sched

import (
	"math"
	"time"
)

// Auto chooses the number of workers that end the most tasks, by hill climbing. It measures the speed with a number
// of workers in a window of time, then with more and fewer in ever smaller steps, and stays with the best. It tries
// its neighbours again now and then, because tasks change. The caller samples the run several times a second.
type Auto struct {
	least, most int

	workers int
	speeds  map[int]float64 // tasks per second, by number of workers
	best    int             // of the numbers in speeds
	factor  float64         // of the next step from best
	down    bool            // steps down come first
	holds   int             // windows with best since the last step

	settle time.Duration // until a window may begin
	length time.Duration // of the window so far; 0 if none began
	start  Sample        // at its beginning
}

// Sample holds figures of a run. All but Idle and Short count from its start.
type Sample struct {
	Good  float64       // tasks that ended; a failure may count less
	Ran   int64         // attempts that ended
	Busy  time.Duration // that these attempts took together
	Idle  bool          // not all workers have tasks
	Short bool          // the machine is short of memory
}

const (
	leastWindow = time.Second
	mostWindow  = 8 * time.Second // for the attempts that make a speed certain, unless one takes longer
	leastEnds   = 40              // of these attempts
	shortPause  = 5 * time.Second // until fewer workers have freed memory
	firstFactor = 2.0
	lastFactor  = 1.2
	holdWindows = 16
	fall        = 0.6 // of the speed: less is no noise
	// cost is the exponent of the number of workers by which a speed is divided: twice the workers are
	// worth it if they bring 3.5 % more.
	cost = 0.05
)

// NewAuto returns an Auto for a number of workers between least and most. It begins with workers.
func NewAuto(workers, least, most int) *Auto {
	a := &Auto{least: least, most: most, factor: firstFactor, speeds: map[int]float64{}}
	a.workers = a.bounded(float64(workers))
	return a
}

// Workers returns the number of workers.
func (a *Auto) Workers() int { return a.workers }

// Next takes a sample of the run and the time since the previous one, and returns the number of workers from now on.
func (a *Auto) Next(s Sample, passed time.Duration) int {
	switch {
	case s.Short && a.settle <= 0:
		a.restart(shortPause)
	case s.Idle: // the speed says nothing
		a.length, a.settle = 0, max(a.settle, passed)
	case a.settle > 0:
		a.settle -= passed
		a.start = s
	default:
		a.measure(s, passed)
	}
	return a.workers
}

// measure continues the window, and decides at its end.
func (a *Auto) measure(s Sample, passed time.Duration) {
	a.length += passed
	ran := s.Ran - a.start.Ran
	if ran == 0 {
		return
	}
	mean := (s.Busy - a.start.Busy) / time.Duration(ran)
	if a.length < max(leastWindow, mean) || ran < int64(max(leastEnds, a.workers)) && a.length < mostWindow {
		return
	}
	speed := (s.Good - a.start.Good) / a.length.Seconds()
	a.length, a.start = 0, s
	switch before, known := a.speeds[a.workers]; {
	case !known:
		a.speeds[a.workers] = speed
	case speed < fall*before: // the tasks have changed
		a.restart(mean)
		return
	default:
		a.speeds[a.workers] = (before + speed) / 2
	}
	if best := a.findBest(); best != a.best {
		a.best, a.factor, a.holds = best, min(firstFactor, a.factor*a.factor), 0
	}
	a.resize(a.next(), mean)
}

// restart forgets all speeds and begins again with half as many workers, and with steps down.
func (a *Auto) restart(pause time.Duration) {
	clear(a.speeds)
	a.factor, a.down = firstFactor, true
	a.resize(a.bounded(float64(a.workers)/firstFactor), pause)
}

// findBest returns the best number of workers that has a speed.
func (a *Auto) findBest() (best int) {
	most := math.Inf(-1)
	for n, speed := range a.speeds {
		if worth := speed / math.Pow(float64(n), cost); worth > most || worth == most && n < best {
			best, most = n, worth
		}
	}
	return best
}

// next returns the number of workers for the next window.
func (a *Auto) next() int {
	for {
		n := float64(a.best)
		near := [...]int{a.bounded(max(n*a.factor, n+1)), a.bounded(min(n/a.factor, n-1))}
		if a.down {
			near[0], near[1] = near[1], near[0]
		}
		for _, n := range near {
			if _, known := a.speeds[n]; !known {
				return n
			}
		}
		a.down = false
		if a.factor > lastFactor {
			a.factor = math.Sqrt(a.factor)
			continue
		}
		if a.holds++; a.holds <= holdWindows {
			return a.best
		}
		a.holds = 0
		for _, n := range near {
			if n != a.best {
				delete(a.speeds, n)
			}
		}
	}
}

// bounded returns a number of workers within the bounds.
func (a *Auto) bounded(n float64) int { return max(a.least, min(int(math.Round(n)), a.most)) }

// resize sets the number of workers, and for how long running attempts still show an earlier number.
func (a *Auto) resize(n int, mean time.Duration) {
	if n != a.workers {
		a.workers, a.length, a.settle = n, 0, max(mean, leastWindow/4)
	}
}
