package runner

import "time"

// untilLook is how often the core checks the machine's clock before Limit.Until: that
// clock can be set, and goes on while the machine sleeps.
const untilLook = time.Minute

// begins starts what is counted from the beginning of the run.
func (c *core) begins() {
	c.explainer.since = c.run
	c.nextStart = c.run.Add(c.cfg.Pool.Jitter)
	if d := c.cfg.Limit.Run; d > 0 {
		c.lateAt = c.run.Add(d)
	}
}

// deadlineDue ends a run whose time is over: it drains, and attempts that still run
// Limit.KillAfter later are asked to end.
func (c *core) deadlineDue() {
	if c.untilPending() && !c.now.Before(c.cfg.Limit.Until) {
		c.lateAt = c.run
	}
	switch {
	case c.lateAt.IsZero() || c.run.Before(c.lateAt):
	case c.sealed:
		c.lateAt = time.Time{}
	case !c.overtime:
		c.overtime, c.lateAt = true, c.run.Add(c.cfg.Limit.KillAfter)
		c.ends(Late, nil, nil)
		c.drain("--deadline")
	default:
		c.lateAt = time.Time{}
		c.stop("--deadline")
		c.wait(c.cfg.Limit.KillAfter + margin)
	}
}

// untilPending reports whether Limit.Until is still to come, as far as the core has
// noticed.
func (c *core) untilPending() bool {
	return !c.cfg.Limit.Until.IsZero() && !c.overtime && !c.sealed
}

// untilWake returns when to look at the machine's clock. The zero time is never.
func (c *core) untilWake() time.Time {
	if !c.untilPending() {
		return time.Time{}
	}
	return earlier(c.cfg.Limit.Until, c.now.Truncate(untilLook).Add(untilLook))
}
