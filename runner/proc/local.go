// Package proc runs one attempt as one process group: it starts the process,
// captures its output, ends it when it is told to, and turns the wait status into
// an outcome.
//
// An attempt is one goroutine that blocks in system calls: reading pipes with
// poll(2) costs less a task than the runtime's own poller, and a blocked
// thread a task is cheap up to some thousands.
//
// It needs Linux: pidfds, memfd_create(2) and PR_SET_PDEATHSIG. What it does
// below Go's standard library is in package linux.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner/linux"
	"crew/runner/spool"
	"crew/runner/task"
)

// Config says how tasks run.
type Config struct {
	Dir      string   // working directory; empty is crew's own
	Env      []string // the environment that tasks inherit
	Plan     task.Plan
	Store    *spool.Store                                 // where outputs are kept that results hold
	Open     func(task.Attempt) (out, err io.WriteCloser) // where lines are shown as they come; called once an attempt
	Notice   func(string)                                 // told of what a person should know, in a goroutine of its own; may be nil
	RunDelay bool                                         // results say how long tasks waited for a processor
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Plan.Keeps() && c.Store == nil:
		return errors.New("capture without a store")
	case c.Plan.Show == task.ShowLines && c.Open == nil:
		return errors.New("streaming without writers")
	}
	return nil
}

// Local is an Executor that runs each attempt as a process group of its own on
// this machine. It is safe for concurrent use.
type Local struct {
	cfg     Config
	env     *environ
	path    *lookup
	null    int // /dev/null, open for reading and writing
	spawner *linux.Spawner
	pins    linux.Pins
	live    atomic.Int64 // processes started and not reaped
	peak    peak

	groups   groups
	guardian guardian
	shortage *shortage
	ran      atomic.Pointer[program] // what started last

	buffers sync.Pool // of *[pipeSize]byte, to read into
}

// New makes a Local. Close it when no attempt runs any more.
func New(cfg Config) (*Local, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	l := &Local{
		cfg: cfg, env: newEnviron(cfg.Env), path: newLookup(), null: null,
		spawner: linux.NewSpawner(), shortage: newShortage(),
	}
	l.guardian = guardian{groups: &l.groups, null: null, notice: l.notice}
	l.groups.begin = l.guardian.try
	l.buffers.New = func() any { return new([pipeSize]byte) }
	return l, nil
}

// notice says what a person should know, without waiting until that is shown:
// nobody may be reading for now.
func (l *Local) notice(text string) {
	if l.cfg.Notice != nil {
		go l.cfg.Notice(text)
	}
}

// Close gives back what New opened. An attempt that still runs, because
// nobody takes its output, loses its process.
func (l *Local) Close() error {
	l.groups.kill(func(*process) bool { return true })
	l.guardian.close()
	return syscall.Close(l.null)
}

// Kill kills the process group of a task. See runner.Executor.
func (l *Local) Kill(id uint64) {
	l.groups.kill(func(p *process) bool { return p.attempt.Task.ID == id })
}

// Suspend stops all process groups. See runner.Executor.
func (l *Local) Suspend() { l.groups.stop() }

// Resume lets all process groups go on. See runner.Executor.
func (l *Local) Resume() { l.groups.goOn() }

// Run runs one attempt to its end. See runner.Executor.
func (l *Local) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Argv: a.Argv(), Start: time.Now(),
	}
	if ctx.Err() != nil {
		r.Outcome, r.End = task.Cancelled, r.Start
		return r
	}
	p, err := l.start(ctx, a, r.Argv)
	if err != nil {
		startFailed(ctx, r, err)
		return r
	}
	r.Start, r.PID = p.started, p.pid

	stop := context.AfterFunc(ctx, func() {
		why := cancelled
		if context.Cause(ctx) == task.ErrTimeout {
			why = timedOut
		}
		p.end(why, syscall.SIGTERM)
	})
	p.capture()
	if p.fault != nil {
		p.end(cancelled, syscall.SIGKILL)
	}
	p.reap(r)
	p.unpin()
	l.pins.Lasted(r.End.Sub(r.Start), l.live.Load())
	stop()
	l.live.Add(-1)
	p.handOver(r)
	if r.Fault != nil {
		r.Fault = fmt.Errorf("task %d: its output is cut: %w", a.Task.ID, r.Fault)
	}
	return r
}

// startFailed fills in the result of an attempt that came to no process.
func startFailed(ctx context.Context, r *task.Result, err error) {
	r.End = time.Now()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if r.Outcome = task.Cancelled; context.Cause(ctx) == task.ErrTimeout {
			r.Outcome = task.Timeout
		}
		return
	}
	r.Outcome, r.Err, r.Code = task.StartFailed, err, 126
	if fault := (faultError{}); errors.As(err, &fault) {
		r.Fault = fault
	}
	var bad *commandError
	if errors.As(err, &bad) {
		r.BadCommand, r.Code = true, bad.status
	}
	if errors.Is(err, ErrInVain) {
		r.BadCommand = true
	}
}
