package engine

import (
	"sync"
	"time"
)

// maxDelay is how much longer than the quickest result another one may take to arrive. If one takes
// longer, the worker's clock is taken to have been set.
const maxDelay = time.Second

// clock converts times of a worker's clock to this machine's. It takes the shortest delay between the
// end of an attempt there and the arrival of its result here as the offset of the clocks, so the
// distances between attempts are preserved. It is safe for concurrent use.
type clock struct {
	mu     sync.Mutex
	known  bool
	offset time.Duration // this machine's clock less the worker's
}

// toLocal converts there, when an attempt ended by the worker's clock, to this machine's clock. now is
// when its result arrived. If the worker's clock seems to have been set, the offset is measured again.
func (c *clock) toLocal(there, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0) // compare wall clocks
	if d := now.Sub(there); !c.known || d < c.offset || d > c.offset+maxDelay {
		c.known, c.offset = true, d
	}
	return there.Add(c.offset)
}
