package runner

import (
	"fmt"
	"time"

	"crew/runner/task"
)

// blockedAfter is how long the input has to stand still beside idle workers
// before that is worth a word, and blockedAgain how long until the next one.
const (
	blockedAfter = time.Second
	blockedAgain = 10 * time.Second
)

// explainBlocked says, when it is asked for, which queue has filled the
// read-ahead while workers are idle. A task that starts now and then makes room
// for a few others, and is no end of that.
func (c *core) explainBlocked(now time.Time) {
	waiting := c.waiting()
	idle := !c.inputEnd && !c.draining && !c.paused && c.running < c.workers
	switch due := !now.Before(c.explainAt); {
	case !c.cfg.Explain || waiting < c.cfg.Pool.Buffer/2 || !idle && due:
		c.explainAt = time.Time{}
	case c.explainAt.IsZero():
		if waiting >= c.cfg.Pool.Buffer {
			c.explainAt = now.Add(blockedAfter)
			if next := c.explained.Add(blockedAgain); next.After(c.explainAt) {
				c.explainAt = next
			}
		}
	case due:
		c.explained, c.explainAt = now, now.Add(blockedAgain)
		if text := c.blocking(); text != "" {
			c.emit(task.Event{Kind: task.Notice, At: now, Text: text})
		}
	}
}

// blocking names the longest queue.
func (c *core) blocking() string {
	b, parked := c.policy.Longest(), false
	if c.limit != nil {
		if l := c.limit.Longest(); l.N > b.N {
			b, parked = l, true
		}
	}
	e := c.entries[b.ID]
	if e == nil {
		return ""
	}
	text := fmt.Sprintf("input waits: %d tasks", b.N)
	if b.OneKey {
		text += " of key " + e.task.Key
	}
	switch {
	case parked:
		text += fmt.Sprintf(" wait for the %d of that key that may run at once", c.cfg.Pool.PerKey)
	case b.Worker > 0:
		text += fmt.Sprintf(" wait for worker %d", b.Worker)
	default:
		text += " wait"
	}
	return text
}

// earlier is the earlier of two times, of which a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
