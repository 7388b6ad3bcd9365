package task

import "time"

// Clock is the run's time. It is stopped while the run is suspended, so no deadline passes while
// nothing can run. The zero Clock is running.
type Clock struct {
	Lost  time.Duration // total time that it was stopped
	since time.Time     // when it was stopped; zero if it is running
}

// At returns the run's time at now, a time of the machine's clock.
func (k *Clock) At(now time.Time) time.Time {
	if k.Stopped() {
		now = k.since
	}
	return now.Add(-k.Lost)
}

// Real converts a time of a running clock to the machine's. The zero time stays zero.
func (k *Clock) Real(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(k.Lost)
}

// Stopped reports whether the clock is stopped.
func (k *Clock) Stopped() bool { return !k.since.IsZero() }

// Stop stops the clock, unless it is stopped.
func (k *Clock) Stop(now time.Time) {
	if !k.Stopped() {
		k.since = now
	}
}

// Start starts the clock again, and returns how long it was stopped.
func (k *Clock) Start(now time.Time) (lost time.Duration) {
	if k.Stopped() {
		lost = now.Sub(k.since)
		k.Lost += lost
		k.since = time.Time{}
	}
	return lost
}
