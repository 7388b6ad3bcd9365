package proc

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Clock is a task.Clock that any goroutine can read at any time. Only one goroutine may change it.
type Clock struct {
	base time.Time
	run  atomic.Pointer[task.Clock]
}

// Now returns the time that the clock has run, and the current time.
func (c *Clock) Now() (run time.Duration, at time.Time) {
	at = c.base.Add(time.Since(c.base)) // costs half as much as time.Now
	return c.run.Load().At(at).Sub(c.base), at
}

// Change calls a method of the clock that changes it, such as Stop.
func (c *Clock) Change(how func(*task.Clock, time.Time)) {
	k := *c.run.Load()
	how(&k, time.Now())
	c.run.Store(&k)
}

// Silence returns how long an attempt has written nothing, by Clock. It needs
// Config.Idle. See runner.Executor.
func (l *Local) Silence(a task.Attempt) (silent time.Duration) {
	l.groups.each(func(p *process) {
		if p.Task == a.Task && p.Number == a.Number {
			silent = p.silence()
		}
	})
	return silent
}

// noteOutput records that the process has started or has written output, which may not have been read yet.
func (p *process) noteOutput() {
	if p.Idle {
		now, _ := p.Clock.Now()
		p.lastOutput.Store(int64(now))
	}
}

// silence returns how long the process has written nothing. Output that crew has not read yet,
// because crew was stopped or its own output blocks, counts as written now. Output to a file counts, too,
// if the file's size has changed since the last call.
func (p *process) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kernel.Readable(p.out.fd, p.err.fd) {
		return 0
	}
	now, _ := p.Clock.Now()
	silent := now - time.Duration(p.lastOutput.Load())
	var st unix.Stat_t
	if file := p.stdoutFile(); file != "" && unix.Stat(file, &st) == nil && st.Size != p.written {
		p.written = st.Size
		silent = min(silent, max(0, time.Since(time.Unix(st.Mtim.Unix()))))
	}
	return silent
}
