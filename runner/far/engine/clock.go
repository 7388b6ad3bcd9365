package engine

import (
	"sync"
	"time"
)

// mostLate is how long after its end a result may come and still say something of the
// worker's clock.
const maxDelay = time.Second

// clock turns the times of a worker's clock into those of this machine's. It takes the least
// delay between the end of an attempt there and the arrival of its result here for the
// difference of the clocks, so attempts keep their distances. It is safe for concurrent use.
type clock struct {
	mu     sync.Mutex
	known  bool
	offset time.Duration // of this machine's clock
}

// end returns when an attempt ended by this machine's clock, of which the worker's says when,
// and whose result came now. Where the worker's clock seems to have been set, it begins anew.
func (c *clock) toLocal(there, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0) // clocks that are set count
	if d := now.Sub(there); !c.known || d < c.offset || d > c.offset+maxDelay {
		c.known, c.offset = true, d
	}
	return there.Add(c.offset)
}
