// Package proc runs one attempt as one process group: it starts the process,
// captures its output, ends it when its time is over or the run says so, and
// turns the wait status into an outcome.
//
// An attempt is one goroutine that blocks in system calls: reading pipes with
// poll(2) costs less a task than the runtime's own poller, and a blocked
// thread a task is cheap up to some thousands.
//
// It needs Linux: pidfds, memfd_create(2), PR_SET_PDEATHSIG and, where package
// vfork starts the processes, clone3(2). On other processors than amd64 and
// arm64 package syscall starts them, and each costs more.
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

	"crew/runner/spool"
	"crew/runner/task"
)

// Capture is what becomes of a task's stdout and stderr.
type Capture uint8

// The ways to capture.
const (
	Keep    Capture = iota // both are kept and handed over with the result
	Stream                 // both are written to what Config.Open gives, as they come
	Inherit                // the task writes to crew's own stdout and stderr
	Discard                // nothing is kept but the end of stderr
)

// Config says how tasks run.
type Config struct {
	Dir       string        // working directory; empty is crew's own
	Env       []string      // the environment that tasks inherit
	Timeout   time.Duration // of one attempt; 0 is none
	KillAfter time.Duration // from TERM to KILL
	Capture   Capture
	Store     *spool.Store                                 // where Keep keeps
	Open      func(task.Attempt) (out, err io.WriteCloser) // where Stream writes; called once an attempt
	Notice    func(string)                                 // told of what a person should know, in a goroutine of its own; may be nil
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Capture == Keep && c.Store == nil:
		return errors.New("capture without a store")
	case c.Capture == Stream && c.Open == nil:
		return errors.New("streaming without writers")
	case c.Timeout < 0 || c.KillAfter < 0:
		return errors.New("negative duration")
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
	spawner *spawner
	live    atomic.Int64 // processes started and not reaped

	seats    seats
	brief    atomic.Int64 // how many attempts were, one after another
	groups   groups
	guardian guardian
	lack     *lack
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
	env := newEnviron(cfg.Env)
	l := &Local{cfg: cfg, env: env, path: newLookup(), null: null, spawner: newSpawner(), lack: newLack()}
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
	l.groups.kill()
	l.guardian.close()
	return syscall.Close(l.null)
}

// Run runs one attempt to its end. See runner.Executor.
func (l *Local) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Worker, Argv: a.Argv(), Start: time.Now(),
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

	stop := context.AfterFunc(ctx, func() { p.end(cancelled, l.cfg.KillAfter, a.Kill) })
	timeout := l.cfg.Timeout
	if a.Task.Timeout > 0 {
		timeout = a.Task.Timeout
	}
	var timer *alarm
	if timeout > 0 {
		timer = l.groups.clock.after(timeout, func() { p.end(timedOut, l.cfg.KillAfter, a.Kill) })
	}

	p.capture()
	if p.fault != nil {
		p.end(cancelled, 0, a.Kill)
	}
	p.reap(r)
	p.stand()
	l.lasted(r.End.Sub(r.Start))
	stop()
	if timer != nil {
		timer.stop()
	}
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
		r.Outcome = task.Cancelled
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
