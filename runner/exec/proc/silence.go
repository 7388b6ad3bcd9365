package proc

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
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

// Silence returns for how long an attempt has written nothing, by Clock. It needs
// Config.Idle. See runner.Executor.
func (l *Local) Silence(a task.Attempt) (silent time.Duration) {
	l.groups.each(func(p *process) {
		if p.Task == a.Task && p.Number == a.Number {
			silent = p.silence()
		}
	})
	return silent
}

// hear notes that the process has written something, or started. The caller reads that later.
func (p *process) hear() {
	if p.Idle {
		now, _ := p.Clock.Now()
		p.heard.Store(int64(now))
	}
}

// silence returns for how long the process has written nothing. What crew has not read
// yet, because it was stopped or nobody reads its own output, is something, and so is what
// the process has written to a file since the last question.
func (p *process) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kernel.Readable(p.out.fd, p.err.fd) {
		return 0
	}
	now, _ := p.Clock.Now()
	silent := now - time.Duration(p.heard.Load())
	var st unix.Stat_t
	if file := p.target(); file != "" && unix.Stat(file, &st) == nil && st.Size != p.written {
		p.written = st.Size
		silent = min(silent, max(0, time.Since(time.Unix(st.Mtim.Unix()))))
	}
	return silent
}
