package runner

import "time"

// clock is the run's time. It stands still while the run is suspended, so that no
// deadline passes while nothing can run. The zero clock is running.
type clock struct {
	lost  time.Duration // how long it has stood still in all
	since time.Time     // when it was stopped; zero if it is running
}

// at returns the run's time at a moment of the machine's clock.
func (k *clock) at(now time.Time) time.Time {
	if k.stopped() {
		now = k.since
	}
	return now.Add(-k.lost)
}

// real converts a time of a running clock to the machine's. Zero stays zero.
func (k *clock) real(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(k.lost)
}

func (k *clock) stopped() bool { return !k.since.IsZero() }

func (k *clock) stop(now time.Time) {
	if !k.stopped() {
		k.since = now
	}
}

// start returns how long the clock has stood still since it was stopped.
func (k *clock) start(now time.Time) (lost time.Duration) {
	if k.stopped() {
		lost = now.Sub(k.since)
		k.lost += lost
		k.since = time.Time{}
	}
	return lost
}
