package core

import (
	"time"

	"crew/runner/decide/task"
)

// clock holds the time of the current step.
type clock struct {
	time task.Clock
	now  time.Time // on the machine's clock
	run  time.Time // on the run's clock, which stands still during suspension; for deadlines
	at   time.Time // for events: now or, during suspension, when that began
}

func (k *clock) tick(now time.Time) {
	k.now, k.run = now, k.time.At(now)
	k.at = k.time.Real(k.run)
}

// reached reports whether at, a time on the run's clock, has come. The zero time is never.
func (k *clock) reached(at time.Time) bool { return !at.IsZero() && !k.run.Before(at) }

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
