package proc

import (
	"sync"
	"time"
)

// clock is the time that counts for tasks: it stands still while they do. The
// zero clock goes. It is safe for concurrent use.
type clock struct {
	mu    sync.Mutex
	lost  time.Duration // how long it has stood still
	since time.Time     // when it was stopped; zero while it goes
}

// lostBy is how long the clock has stood still until now.
func (c *clock) lostBy(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return c.lost
	}
	return c.lost + now.Sub(c.since)
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = time.Now()
	}
}

func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		c.lost += time.Since(c.since)
		c.since = time.Time{}
	}
}

// after calls f, in a goroutine of its own, once d has passed on the clock. The
// alarm that it returns can be stopped.
func (c *clock) after(d time.Duration, f func()) *alarm {
	a := &alarm{clock: c, f: f, due: time.Now().Add(d), lost: c.lostBy(time.Now())}
	a.mu.Lock()
	a.timer = time.AfterFunc(d, a.fire)
	a.mu.Unlock()
	return a
}

// alarm is something that is to happen at a time of a clock.
type alarm struct {
	clock *clock
	f     func()
	due   time.Time     // when it was to happen, had the clock not stood still since
	lost  time.Duration // what the clock had lost when due was said

	mu    sync.Mutex
	timer *time.Timer
	off   bool
}

// fire goes off, or back to sleep where the clock has stood still meanwhile.
func (a *alarm) fire() {
	now := time.Now()
	left := a.due.Sub(now) + a.clock.lostBy(now) - a.lost
	a.mu.Lock()
	if left > 0 && !a.off {
		a.timer.Reset(left)
	}
	off := a.off
	a.mu.Unlock()
	if left <= 0 && !off {
		a.f()
	}
}

// stop keeps the alarm from going off, unless it does so at this moment.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	a.timer.Stop()
}
