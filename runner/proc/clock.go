package proc

import (
	"sync/atomic"
	"time"

	"crew/runner/task"
)

// Clock is a task.Clock for goroutines that read it at any time. One goroutine changes it.
type Clock struct {
	base time.Time
	run  atomic.Pointer[task.Clock]
}

// Now returns what the clock shows, since it was made, and the time.
func (c *Clock) Now() (run time.Duration, at time.Time) {
	at = c.base.Add(time.Since(c.base)) // half the cost of time.Now
	return c.run.Load().At(at).Sub(c.base), at
}

// Change changes the clock by a method such as Stop.
func (c *Clock) Change(how func(*task.Clock, time.Time)) {
	k := *c.run.Load()
	how(&k, time.Now())
	c.run.Store(&k)
}
