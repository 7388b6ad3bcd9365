package proc

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

const (
	killAgain = time.Second // pause before a kill is repeated
	// memoryGrace bounds the grace period of an attempt that is ended for memory, since meanwhile it
	// takes the memory that others lack.
	memoryGrace = 500 * time.Millisecond
)

// process is the process group of one attempt. The ID of its leader is also the ID of
// the group.
type process struct {
	// configuration

	*Local
	task.Attempt
	ctx           context.Context // of the attempt
	pid           int
	row           int // in groups
	started       time.Time
	spool.Streams // of its output; Live reads Kept even after it has been handed over

	// state of the attempt's goroutine

	pin         *kernel.Pin // nil if it is not pinned
	child       [3]uintptr  // the child's standard streams, until it has started; see closeChildEnds
	out, err    int         // crew's ends of the pipes from its stdout and stderr; -1 if they are closed or there is none
	in          int         // crew's end of the task's stdin; -1 if it is closed or there is none
	input       Input       // still to be written to in
	inputErr    error       // why input cannot be read
	pidfd       int         // readable once the leader has exited; -1 if it is not open
	deadline    time.Time   // when to stop reading, once the leader has exited
	files       int64       // how much the attempt took from Local.filesRoom
	leaked      bool        // processes that the leader left behind held its pipes open, and were killed
	leftBehind  []string    // names of the processes that the leader left behind and crew has killed
	daemons     []string    // names of the daemons, which crew does not kill
	killedEarly bool        // the leader was killed before it executed the program

	stopReported bool         // the user knows that the task has stopped; used by the guardian's timer
	lastOutput   atomic.Int64 // time of the last output, or of the start, by Local.Clock; with Config.Idle

	// state under groups.mu

	begun  bool // it has been added
	killed bool // Kill was called

	// state shared with the goroutines that signal the process

	mu      sync.Mutex
	size    winSize      // size of its terminals; 0 if it has none
	exited  bool         // the leader has exited, so it is too late to end it; only the attempt's goroutine sets it
	reaped  bool         // the ID may belong to another process: never signal it again
	endedBy task.Outcome // the first reason why crew ended it, or 0
	kin     *kin         // nil until its processes are first looked for
	written int64        // size of the file that is its stdout at the last call of silenceLocked

	// state of checkLimits

	timer  *time.Timer // calls it
	limit  task.Limit
	asked  bool          // it was asked to end, or killed
	due    time.Duration // its timeout or, once it was asked to end, when it is killed, by Local.Clock
	silent error         // says that it was ended for its silence, or nil
}

// unpin releases the pin, if there is one.
func (p *process) unpin() {
	p.pin.Release()
	p.pin = nil
}

// killSoon kills the group and its descendants, and does not wait for that: terminate may still be running
// because ctx is done.
func (p *process) killSoon() { go p.terminate(task.OutcomeOf(context.Cause(p.ctx)), true) }

// terminate asks the group and its descendants to end, once, and kills them if they do not end in time. With
// kill, it kills them now. The outcome of the attempt will be why, unless its leader has exited before.
func (p *process) terminate(why task.Outcome, kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terminateLocked(why, kill)
}

func (p *process) terminateLocked(why task.Outcome, kill bool) {
	if p.reaped || p.pid == 0 || p.asked && !kill && why != task.Memory {
		return
	}
	wait := p.limit.KillAfter
	switch {
	case kill:
		wait = killAgain
	case why == task.Memory:
		wait = min(wait, memoryGrace)
	}
	now, _ := p.Clock.Now()
	if p.asked && !kill { // it may have been asked for another reason before memory was short
		wait = min(wait, p.due-now)
	}
	p.asked, p.due = true, now+wait
	p.timer.Reset(wait)
	if p.endedBy == 0 && !p.exited && !kernel.Exited(p.pid, unix.WNOHANG) {
		p.endedBy = why
	}
	switch {
	case kill:
		p.killLocked()
	case p.groups.suspended.Load(): // resume will continue it, and only then it gets the signal
		p.signalLocked(p.census.walk, true, syscall.SIGTERM)
	default:
		p.signalLocked(p.census.walk, true, syscall.SIGTERM, syscall.SIGCONT) // a stopped process gets a signal only once it continues
	}
}

// reap waits for the leader, kills the processes that it left behind, and fills in the result.
func (p *process) reap(r *task.Result) {
	ws, ru, why := p.awaitLeader()
	r.End = time.Now()
	p.sweep()
	r.Outcome, r.Code, r.Signal = Classify(why, ws)
	r.User = time.Duration(ru.Utime.Nano())
	r.System = time.Duration(ru.Stime.Nano())
	r.MaxRSS = p.peak.ofTask(int64(ru.Maxrss) << 10)
}

// awaitLeader waits for the leader to exit and reaps it. It returns the reason why crew ended the
// group, or 0. The caller must call sweep next.
func (p *process) awaitLeader() (ws syscall.WaitStatus, ru syscall.Rusage, why task.Outcome) {
	if p.shortage.threads.Load() { // do not block a thread
		kernel.Poll(math.MaxInt64, func() bool { return kernel.Exited(p.pid, unix.WNOHANG) })
	}
	p.killedEarly = kernel.KilledEarly(p.pid)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.exited = true
	p.groups.leaderReaped(p)
	kernel.Wait(p.pid, &ws, &ru)
	p.reaped = true
	p.timer.Stop()
	return ws, ru, p.endedBy
}

// sweep kills the processes that the leader left behind. The leader must have been reaped. If nothing
// is left in the group, and crew has not signalled the task, sweep does not list processes. If crew did
// not end the task, processes that are about to end or to make a session of their own get a short
// time for this.
func (p *process) sweep() {
	// While the group has any process, no other process or group gets its ID.
	gone := func() bool { return syscall.Kill(-p.pid, 0) == syscall.ESRCH }
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endedBy == 0 && !p.leaked {
		kernel.Poll(lingerKilled, gone)
	}
	if p.kin != nil || !gone() {
		p.killLocked()
	}
	p.groups.remove(p)
}

// Classify returns the outcome of an attempt. why is the reason why crew ended it, or 0, and ws is the
// wait status of its leader. An attempt that crew ended is never OK: a task that traps TERM and
// exits 0 has not done its work.
func Classify(why task.Outcome, ws syscall.WaitStatus) (o task.Outcome, code, sig int) {
	if ws.Signaled() {
		sig = int(ws.Signal())
	} else {
		code = ws.ExitStatus()
	}
	switch {
	case why == task.StartFailed:
		return why, 126, 0
	case why == task.BadAnswer:
		return why, 0, 0
	case why != 0:
		return why, 0, sig
	case sig != 0:
		o = task.Signal
	case code != 0:
		o = task.Exit
	default:
		o = task.OK
	}
	return o, code, sig
}

// Poll calls poll(2) and waits for an hour at most. While threads are short, it polls at intervals
// instead, because poll(2) blocks a thread.
func (l *Local) Poll(set []unix.PollFd, wait time.Duration) (n int, err error) {
	wait = min(max(wait, 0), time.Hour)
	if !l.shortage.threads.Load() {
		return unix.Poll(set, int((wait+time.Millisecond-1)/time.Millisecond))
	}
	kernel.Poll(wait, func() bool {
		n, err = unix.Poll(set, 0)
		return n != 0 || err != nil
	})
	return n, err
}
