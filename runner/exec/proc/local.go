// Package proc runs an attempt as a process group: it starts the process, captures its output,
// ends it on request, and turns the wait status into an outcome.
//
// Each attempt is one goroutine that blocks in system calls. Reading pipes with
// poll(2) costs less per task than the runtime's poller, and a blocked thread per
// task is cheap up to some thousands.
//
// Package kernel has the parts that differ between systems.
package proc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/jobserver"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

// Config says how tasks run. Captured output passes through this process. With task.ShowRaw nothing is
// captured. Terminal needs task.ShowRaw, and PTY excludes it.
type Config struct {
	spool.Outputs
	Dir      string       // working directory; empty for crew's own
	Env      []string     // the environment that tasks inherit
	Notice   func(string) // shows a message to the user; called in a goroutine of its own; may be nil
	Terminal bool         // tasks run one at a time in the foreground of the controlling terminal
	PTY      bool         // tasks write to pseudo-terminals, one for each output
	Limit    task.Limit   // of each attempt
	Resources
}

// Resources limits the system resources that attempts may use.
type Resources struct {
	Spare     int   // descriptors that attempts must leave free, in addition to crew's own
	Processes int64 // maximum number of processes and threads of crew and the tasks together; 0 if it is not known
}

// Local is a runner.Executor that runs each attempt as a process group on this
// machine. It is safe for concurrent use.
type Local struct {
	Clock Clock // stops from Suspend to Resume

	Config    // as given to New
	env       *environ
	path      lookup
	null      int // /dev/null, open for reading and writing
	spawner   *kernel.Spawner
	pins      kernel.Pins
	live      atomic.Int64  // number of processes that have been started and not reaped
	filesRoom atomic.Int64  // number of descriptors that attempts may still open
	size      atomic.Uint32 // the winSize of new terminals; 0 without Config.PTY
	peak      peak

	groups       groups
	census       census
	guardian     guardian
	guardianOnce sync.Once // starts the guardian
	shortage     *shortage
	lastProgram  atomic.Value // the program that was started last
	terminal     *terminal    // nil without Config.Terminal
	onStarted    func(task.Attempt)

	buffers sync.Pool // of *[pipeSize]byte, for reading
}

// New returns a Local. The caller must close it when no more attempts run.
func New(cfg Config) (*Local, error) {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	env := newEnviron(cfg.Env, cfg.PTY)
	l := &Local{
		Config: cfg, env: env, path: lookup{path: env.path, found: map[string]string{}}, null: null,
		spawner: kernel.NewSpawner(), shortage: newShortage(cfg.Processes),
	}
	l.Clock.base = time.Now()
	l.Clock.run.Store(new(task.Clock))
	l.filesRoom.Store(FilesLeft() - int64(spareFiles+cfg.Spare))
	l.guardian = guardian{Local: l, tokens: new(jobserver.Tokens)}
	l.guardian.open()
	l.buffers.New = func() any { return new([pipeSize]byte) }
	if cfg.Terminal {
		if l.terminal, err = newTerminal(); err != nil {
			return nil, errors.Join(err, syscall.Close(null))
		}
	}
	return l, nil
}

// OnBegun sets a function that is called when the process of an attempt has started. See runner.Executor.
func (l *Local) OnBegun(began func(task.Attempt)) { l.onStarted = began }

// notice shows a message. It does not wait, since showing a message may block.
func (l *Local) notice(text string) {
	if l.Notice != nil {
		go l.Notice(text)
	}
}

// Close releases the resources of l. If attempts are still running, because their output is not
// read, it kills their processes.
func (l *Local) Close() error {
	l.groups.each(func(p *process) { p.terminate(task.Cancelled, true) })
	l.guardian.close()
	if l.terminal != nil {
		kernel.Close(&l.terminal.fd)
	}
	return syscall.Close(l.null)
}

// Kill kills the processes of an attempt and does not wait for their end. See runner.Executor.
func (l *Local) Kill(id uint64, attempt int) {
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	for _, p := range l.groups.live {
		if p != nil && p.Task.ID == id && p.Number == attempt {
			if p.killed = true; p.begun {
				p.killSoon()
			}
		}
	}
}

// Lease makes the guardian kill all process groups once the given time has passed, even if this
// process is stopped or hangs, until a later time is set. Meanwhile attempts are lost instead of
// started. The zero time means never. until must have been computed from time.Now shortly before.
func (l *Local) Lease(until time.Time) {
	lease := l.groups.lease
	expired := lease.remaining() <= 0
	if expired { // nothing that began to start before may start now
		l.groups.starting.Lock()
		defer l.groups.starting.Unlock()
	}
	l.spawner.ExpireAt(lease.set(until))
	if expired { // the guardian must not kill what starts from now on
		kernel.Poll(maxGonePause, func() bool { return !lease.killing.Load() })
	}
	l.guardianOnce.Do(l.guardian.check)
}

// HoldOpen makes the guardian keep a descriptor open until all process groups are gone, even if this
// process is killed. It must be called before the first attempt and before Lease.
func (l *Local) HoldOpen(fd int) { l.guardian.heldFD = fd }

// GuardTokens makes the guardian return the tokens of the run if this process is killed. It must be called
// before the first attempt and before Lease.
func (l *Local) GuardTokens(t *jobserver.Tokens) {
	l.guardian.tokens = t
	t.Guard(func() (requests int, err error) {
		if l.guardianOnce.Do(l.guardian.check); !l.guardian.isStarted() {
			return 0, errors.New("no guardian is running to return them if crew is killed")
		}
		return l.guardian.pipe[1], nil
	})
}

// Suspend stops all process groups. See runner.Executor.
func (l *Local) Suspend() {
	l.Clock.Change((*task.Clock).Stop)
	l.groups.suspend()
	if l.terminal != nil {
		l.terminal.suspend()
	}
}

// Resume continues all process groups. See runner.Executor.
func (l *Local) Resume() {
	if l.terminal != nil {
		l.terminal.resume()
	}
	l.groups.resume()
	l.Clock.Change(func(k *task.Clock, now time.Time) { k.Start(now) })
}

// Run runs one attempt to its end. See runner.Executor.
func (l *Local) Run(ctx context.Context, a task.Attempt) *task.Result {
	if l.terminal != nil {
		return l.runOnTerminal(ctx, a)
	}
	return l.run(ctx, a)
}

func (l *Local) run(ctx context.Context, a task.Attempt) *task.Result {
	r := a.End(0, nil, time.Now())
	p, err := l.start(ctx, a, a.Exec())
	if err != nil {
		StartFailed(ctx, r, err)
		return r
	}
	r.Start, r.PID = p.started, p.pid
	if l.onStarted != nil {
		l.onStarted(a)
	}

	stop := context.AfterFunc(ctx, func() { p.terminate(task.OutcomeOf(context.Cause(ctx)), false) })
	p.capture()
	if p.Fault() != nil { // the rest of its output cannot be kept, for example because the disk is full
		p.terminate(task.Cancelled, true)
	}
	if l.terminal != nil {
		p.awaitOnTerminal(l.terminal)
	}
	p.reap(r)
	switch r.Outcome {
	case task.StartFailed:
		r.Err = p.inputErr
	case task.Timeout:
		r.Err = p.silent
	}
	p.unpin()
	if !l.shortage.threads.Load() {
		l.pins.Observe(r.End.Sub(r.Start), l.live.Load())
	}
	stop()
	l.live.Add(-1)
	r.Leaked, r.Left, r.Daemons = p.leaked, strings.Join(p.leftBehind, ", "), strings.Join(p.daemons, ", ")
	p.HandOver(r)
	if p.killedEarly && r.Outcome == task.Signal { // not by crew: the program has not run
		r.Close()
		return l.run(ctx, a)
	}
	return r
}

// StartFailed fills in the result of an attempt whose process did not start.
func StartFailed(ctx context.Context, r *task.Result, err error) {
	r.End = time.Now()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		r.Outcome = task.OutcomeOf(context.Cause(ctx))
		return
	}
	if err == errLeaseOver {
		r.Outcome, r.Err = task.Lost, err
		return
	}
	r.Outcome, r.Err, r.Code = task.StartFailed, err, 126
	if fault, ok := errors.AsType[faultError](err); ok {
		r.Fault = fault
	}
	bad, ok := errors.AsType[*commandError](err)
	if ok {
		r.Code = bad.status
	}
	r.BadCommand = ok || errors.Is(err, ErrNotExecutable)
}
