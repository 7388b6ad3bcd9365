package proc

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

// process is the process group of one attempt. The ID of its leader is the ID of
// the group.
type process struct {
	// configuration

	*Local
	task.Attempt
	ctx     context.Context // of the attempt
	pid     int
	row     int // in groups
	started time.Time
	kept    [2]*spool.Buffer // where its output is kept, also after it was handed over; for Live

	// state of the attempt's goroutine

	pin      *kernel.Pin // nil without one
	child    [3]uintptr  // the child's standard streams, until it has started; see closeChildEnds
	out, err stream
	in       int       // our end of the task's stdin; -1 if it is closed or there is none
	unread   Input     // what is still to be written to in
	broken   error     // why that cannot be read
	pidfd    int       // readable once the leader has exited; -1 if it is not open
	deadline time.Time // when to give up reading, once the leader has exited
	files    int64     // what the attempt took from local.room
	fault    error
	leaked   bool     // the leader has left processes behind, which have been killed
	left     []string // the names of processes that the leader left behind and crew has killed
	daemons  []string // the same of those that stay
	early    bool     // the leader was killed before it executed the program

	stopped bool         // the user knows that it stopped; for the guardian's timer
	heard   atomic.Int64 // what Local.Clock showed when it last wrote, or started; with Config.Idle

	// state shared with the goroutines that signal the process

	mu      sync.Mutex
	size    winSize      // of its terminals; 0 without
	exited  bool         // the leader has exited, so it is too late to end it; only the attempt's goroutine sets it
	reaped  bool         // the ID may belong to another process: never signal it again
	endedBy task.Outcome // why crew ended it, the first reason; 0 if it did not
	kin     *kin         // nil until its processes are looked for
	written int64        // how long the file that is its stdout was when silence was last asked for
}

// unpin releases the pin, if there is one.
func (p *process) unpin() {
	p.pin.Release()
	p.pin = nil
}

// end asks the group, and what descends from it, to end by sending it sig. The attempt's outcome
// will be why.
func (p *process) end(why task.Outcome, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.pid == 0 {
		return
	}
	if p.endedBy == 0 && !p.exited {
		p.endedBy = why
	}
	switch {
	case sig == syscall.SIGKILL:
		p.kill()
	case p.groups.halted.Load(): // it gets the signal once all go on
		p.pass(p.census.walk, true, sig)
	default:
		p.pass(p.census.walk, true, sig, syscall.SIGCONT) // a stopped process gets a signal only once it continues
	}
}

// reap is wait for a result.
func (p *process) reap(r *task.Result) {
	ws, ru, why := p.await()
	r.End = time.Now()
	p.sweep()
	r.Outcome, r.Code, r.Signal = Classify(why, ws)
	r.User = time.Duration(ru.Utime.Nano())
	r.System = time.Duration(ru.Stime.Nano())
	r.MaxRSS = p.peak.ofTask(int64(ru.Maxrss) << 10)
}

// await waits for the leader to exit and reaps it. It returns why crew ended the group. sweep
// must follow.
func (p *process) await() (ws syscall.WaitStatus, ru syscall.Rusage, why task.Outcome) {
	if p.shortage.threads.Load() { // do not block a thread
		await(func() bool { return kernel.Exited(p.pid, unix.WNOHANG) })
	}
	p.early = kernel.KilledEarly(p.pid)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.exited = true
	p.groups.leave(p)
	kernel.Wait(p.pid, &ws, &ru)
	p.reaped = true
	return ws, ru, p.endedBy
}

// sweep kills what the leader, which has been reaped, has left behind. A task that has left
// nothing in its group costs no walk. If crew has not ended it, what is about to end or to
// make a session of its own gets the time for that.
func (p *process) sweep() {
	// While anything is left of the group, its ID is not another's.
	gone := func() bool { return syscall.Kill(-p.pid, 0) == syscall.ESRCH }
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endedBy == 0 && !p.leaked {
		end := time.Now().Add(parting)
		await(func() bool { return gone() || time.Now().After(end) })
	}
	if p.kin != nil || !gone() {
		p.kill()
	}
	p.groups.remove(p)
}

// Classify returns the outcome of an attempt that crew ended because of why, 0 if
// it did not, and whose leader left ws. An attempt ended by crew is never ok: a
// task that traps TERM and exits 0 has not done its work.
func Classify(why task.Outcome, ws syscall.WaitStatus) (o task.Outcome, code, sig int) {
	if ws.Signaled() {
		sig = int(ws.Signal())
	} else {
		code = ws.ExitStatus()
	}
	switch {
	case why != 0:
		o = why
	case sig != 0:
		o = task.Signal
	case code != 0:
		o = task.Exit
	default:
		o = task.OK
	}
	return o, code, sig
}

// Poll is poll(2), which waits for an hour at most. While threads are short it polls at intervals,
// because poll(2) blocks a thread.
func (l *Local) Poll(set []unix.PollFd, wait time.Duration) (n int, err error) {
	wait = min(max(wait, 0), time.Hour)
	if !l.shortage.threads.Load() {
		return unix.Poll(set, int((wait+time.Millisecond-1)/time.Millisecond))
	}
	end := time.Now().Add(wait)
	await(func() bool {
		n, err = unix.Poll(set, 0)
		return n != 0 || err != nil || !time.Now().Before(end)
	})
	return n, err
}

// await calls ready at growing intervals until it returns true.
func await(ready func() bool) {
	for pause := time.Millisecond; !ready(); pause = min(2*pause, 16*time.Millisecond) {
		time.Sleep(pause)
	}
}
