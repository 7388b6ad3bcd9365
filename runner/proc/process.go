package proc

import (
	"sync"
	"syscall"
	"time"

	"crew/runner/linux"
	"crew/runner/task"
)

// cause is why crew ended an attempt, if it did.
type cause uint8

const (
	none cause = iota
	timedOut
	cancelled
)

// process is one attempt's process group. Its leader's id is the group's.
type process struct {
	// configuration

	local   *Local
	attempt task.Attempt
	pid     int
	row     int // in local.groups
	started time.Time

	// our ends of the pipes, and more that only the attempt's goroutine touches

	pin      *linux.Pin // nil without one
	out, err stream
	in       int    // where the task's stdin is written; -1 when done or never
	unread   []byte // of the task's stdin
	pidfd    int    // readable once the leader has exited; -1 until it is asked for
	child    [3]int // the child's ends, until it has them
	leaked   bool
	fault    error

	// state shared with whoever ends the process

	mu     sync.Mutex
	exited bool  // the leader has ended, so it is too late for a cause
	reaped bool  // the id may belong to another process: never signal it again
	cause  cause // why it was ended; the first one counts
}

// unpin releases the pin, if there is one.
func (p *process) unpin() {
	p.pin.Release()
	p.pin = nil
}

// signal sends sig to the group, unless its id is free again.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
}

// end asks the group to end by sig, for a reason.
func (p *process) end(why cause, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if p.cause == none && !p.exited {
		p.cause = why
	}
	_ = syscall.Kill(-p.pid, sig)
	_ = syscall.Kill(-p.pid, syscall.SIGCONT) // a stopped process hears TERM when it goes on
}

// reap waits for the leader, kills what it left behind in its group while the
// id still is the group's, and frees the id.
func (p *process) reap(r *task.Result) {
	p.local.waitExited(p.pid)
	var ws syscall.WaitStatus
	var ru syscall.Rusage
	var leader schedStat
	if p.local.cfg.RunDelay {
		leader = readSchedStat(p.pid)
	}

	p.mu.Lock()
	p.exited = true
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.local.groups.remove(p)
	for {
		if _, err := syscall.Wait4(p.pid, &ws, 0, &ru); err != syscall.EINTR {
			break
		}
	}
	p.reaped = true
	why := p.cause
	p.mu.Unlock()

	r.End = time.Now()
	r.Outcome, r.Code, r.Signal = classify(why, ws)
	r.User = time.Duration(ru.Utime.Nano())
	r.System = time.Duration(ru.Stime.Nano())
	r.RunDelay = leader.delay(r.User + r.System)
	r.MaxRSS = p.local.peak.ofTask(int64(ru.Maxrss) << 10)
}

// classify tells the outcome from why crew ended the attempt and how its leader
// ended. What crew ended is never ok: a task that traps TERM and exits 0 has
// not done its work.
func classify(why cause, ws syscall.WaitStatus) (o task.Outcome, code, sig int) {
	if ws.Signaled() {
		sig = int(ws.Signal())
	} else {
		code = ws.ExitStatus()
	}
	switch {
	case why == timedOut:
		o = task.Timeout
	case why == cancelled:
		o = task.Cancelled
	case sig != 0:
		o = task.Signal
	case code != 0:
		o = task.Exit
	default:
		o = task.OK
	}
	return o, code, sig
}
