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
// read-ahead while workers are idle.
func (c *core) explainBlocked(now time.Time) {
	full := !c.inputEnd && !c.draining && !c.paused && c.running < c.workers &&
		len(c.entries)-c.running >= c.cfg.Pool.Buffer
	switch {
	case !c.cfg.Explain || !full:
		c.explainAt = time.Time{}
	case c.explainAt.IsZero():
		c.explainAt = now.Add(blockedAfter)
	case !now.Before(c.explainAt):
		c.explainAt = now.Add(blockedAgain)
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
