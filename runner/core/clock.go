package core

import "time"

// clock is the run's time. It stands still while the run is suspended, so that no
// deadline passes while nothing can run. The zero clock is running.
type clock struct {
	now time.Time // on the machine's clock
	run time.Time // on the run's clock, for deadlines
	at  time.Time // of events: now, or when the clock stopped

	lost  time.Duration // how long it has stood still in all
	since time.Time     // when it was stopped; zero if it is running
}

// tick sets the time.
func (k *clock) tick(now time.Time) {
	k.now, k.at = now, now
	if k.stopped() {
		k.at = k.since
	}
	k.run = k.at.Add(-k.lost)
}

// real converts a time of a running clock to the machine's. Zero stays zero.
func (k *clock) real(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(k.lost)
}

// reached reports whether a time on the run's clock has come. Zero is never.
func (k *clock) reached(at time.Time) bool { return !at.IsZero() && !k.run.Before(at) }

func (k *clock) stopped() bool { return !k.since.IsZero() }

func (k *clock) stop() {
	if !k.stopped() {
		k.since = k.now
	}
}

// start returns how long the clock has stood still since it was stopped.
func (k *clock) start() (lost time.Duration) {
	if k.stopped() {
		lost = k.now.Sub(k.since)
		k.lost += lost
		k.since = time.Time{}
		k.tick(k.now)
	}
	return lost
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
