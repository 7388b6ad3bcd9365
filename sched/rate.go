package sched

import "time"

// Rate limits starts by the generic cell rate algorithm (ITU-T I.371): each start takes up the
// time Every, and may be early by Slack. So of N in a period, with Every no less than its Nth
// part and Slack B-1 times Every, any half-open interval as long as the period holds at most
// N+B-1. The zero Rate is no limit.
type Rate struct {
	Every, Slack time.Duration
	free         time.Time // when all starts so far have taken up their time
}

// NewRate returns a Rate of n starts in a period, with bursts of burst; all are at least 1.
func NewRate(n int, period time.Duration, burst int) Rate {
	every := (period + time.Duration(n) - 1) / time.Duration(n)
	return Rate{Every: every, Slack: time.Duration(burst-1) * every}
}

// From returns r for starts from a time on.
func (r Rate) From(t time.Time) Rate {
	r.free = t.Add(r.Slack)
	return r
}

// at returns when the next start may be.
func (r *Rate) at() time.Time { return r.free.Add(-r.Slack) }

// start notes a start.
func (r *Rate) start(now time.Time) {
	if r.Every == 0 {
		return
	}
	if now.After(r.free) {
		r.free = now
	}
	r.free = r.free.Add(r.Every)
}
