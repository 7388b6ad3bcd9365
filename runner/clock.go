package runner

import "time"

// clock is the run's time. It stands still while the run is suspended, so that
// no deadline comes nearer while nothing can run. The zero clock goes.
type clock struct {
	lost  time.Duration // how long it has stood still
	since time.Time     // when it was stopped; zero while it goes
}

// at is the run's time at a moment of the machine's clock.
func (k *clock) at(now time.Time) time.Time {
	if !k.since.IsZero() {
		now = k.since
	}
	return now.Add(-k.lost)
}

// real is the moment at which it will be the run's time at. The zero time, which
// is never, stays.
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

func (k *clock) goOn(now time.Time) {
	if k.stopped() {
		k.lost += now.Sub(k.since)
		k.since = time.Time{}
	}
}
