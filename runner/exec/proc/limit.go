package proc

import (
	"cmp"
	"math"
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
	at = time.Now()
	return c.run.Load().At(at).Sub(c.base), at
}

// Change calls a method of the clock that changes it, such as Stop.
func (c *Clock) Change(how func(*task.Clock, time.Time)) {
	k := *c.run.Load()
	how(&k, time.Now())
	c.run.Store(&k)
}

// startTimer starts to check the limits of the process.
func (p *process) startTimer() {
	now, _ := p.Clock.Now()
	p.lastOutput.Store(int64(now))
	p.due = math.MaxInt64
	if t := p.Task; t.Protocol == task.NoProtocol { // coproc keeps the limits on records
		p.limit = p.Limit
		p.limit.KillAfter = cmp.Or(t.KillAfter, p.Limit.KillAfter)
		if timeout := cmp.Or(t.Timeout, p.Limit.Timeout); timeout > 0 {
			p.due = now + timeout
		}
	}
	p.timer = time.AfterFunc(time.Hour, p.checkLimits)
	p.checkLimits()
}

// checkLimits ends the process if it has passed a limit, and kills it if it does not end in time. It has
// the timer call it again when that may be due.
func (p *process) checkLimits() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, _ := p.Clock.Now()
	due, idle, silent := p.due, p.limit.Idle, p.silent
	if idle > 0 && !p.asked {
		if at := now - p.silenceLocked() + idle; at < due && now < due {
			due, silent = at, task.Silent(idle)
		}
	}
	switch {
	case p.reaped:
	case now < due:
		p.timer.Reset(max(due-now, time.Millisecond)) // the clock may stand still
	default:
		p.silent = silent
		p.terminateLocked(task.Timeout, p.asked)
	}
}

// noteOutput records that the process has written output, which may not have been read yet.
func (p *process) noteOutput() {
	if p.Limit.Idle > 0 {
		now, _ := p.Clock.Now()
		p.lastOutput.Store(int64(now))
	}
}

// silenceLocked returns how long the process has written nothing. Output that crew has not read yet,
// because crew was stopped or its own output blocks, counts as written now. Output to a file counts, too,
// if the file's size has changed since the last call. The caller must hold mu.
func (p *process) silenceLocked() time.Duration {
	if kernel.Readable(p.out, p.err) {
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
