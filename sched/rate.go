package sched

import "time"

// Rate limits starts by the generic cell rate algorithm (ITU-T I.371): each start uses up the time
// Every, and may come early by Slack. If Every is more than a period divided by N, and Slack is B-1
// times Every, any interval as long as the period has at most N+B-1 starts. A start that was
// granted but has not happened yet counts as if it happened now. The zero Rate is no limit.
type Rate struct {
	Every, Slack time.Duration
	next         time.Time // when the next start may happen, given the starts that have happened
	pending      int       // starts that were granted and have not happened
}

// NewRate returns a Rate of n starts in a period, with bursts of burst, which is at least 1. If n
// is 0, there is no limit. The period is stretched by 20 ms or by 2 %, whichever is less: starts
// may be late by half of that without being fewer; the other half is for the delay between the
// start of a process and the moment when it reads the time.
func NewRate(n int, period time.Duration, burst int) Rate {
	if n == 0 {
		return Rate{}
	}
	late := min(period/50, 20*time.Millisecond)
	every := (period+late)/time.Duration(n) + 1
	return Rate{Every: every, Slack: time.Duration(burst-1)*every + late/2}
}

// From returns r for starts from time t on.
func (r Rate) From(t time.Time) Rate {
	r.next = t
	return r
}

// allows reports whether a start may be granted. If not, at is when it may; zero if a start that
// was granted must happen first.
func (r *Rate) allows(now time.Time) (ok bool, at time.Time) {
	ahead := time.Duration(r.pending) * r.Every
	if ahead > r.Slack {
		return false, time.Time{}
	}
	at = r.next.Add(ahead)
	return !now.Before(at), at
}

// started notes that a granted start has happened.
func (r *Rate) started(now time.Time) {
	if r.pending--; r.Every == 0 {
		return
	}
	if from := now.Add(-r.Slack); from.After(r.next) {
		r.next = from
	}
	r.next = r.next.Add(r.Every)
}

// Delay holds timers that become due at given times. It has no clock: the caller passes the time. The
// zero Delay is empty.
type Delay struct {
	queue queue
	base  time.Time // ranks are nanoseconds since base
}

// Timer is something that becomes due. Only its ID is set by the caller. It must not be copied.
type Timer Item

// Push makes a timer due at a time. If it is in already, the new time replaces the old one.
func (d *Delay) Push(t *Timer, at time.Time) {
	if d.queue.added == 0 {
		d.base = at
	}
	t.Rank = int64(at.Sub(d.base))
	d.queue.add((*Item)(t))
}

// Due removes and returns the ID of the timer that is due first, if it is due by now. Timers with the same
// time come in the order of Push.
func (d *Delay) Due(now time.Time) (uint64, bool) {
	at, ok := d.Next()
	if !ok || at.After(now) {
		return 0, false
	}
	first := d.queue.first()
	first.leave()
	return first.ID, true
}

// Next returns when the next timer is due. It returns false if there is none.
func (d *Delay) Next() (time.Time, bool) {
	if d.queue.len() == 0 {
		return time.Time{}, false
	}
	return d.base.Add(time.Duration(d.queue.first().Rank)), true
}

// Stop removes a timer, if it is in.
func (t *Timer) Stop() { (*Item)(t).leave() }
