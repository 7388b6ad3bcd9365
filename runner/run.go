// Package runner runs tasks. A Run connects the state machine of package core to the outside: it
// reports every event to the core, and carries out the decisions of the core.
//
// A run has these goroutines:
//
//   - the reader takes tasks from the Source while there is room for them (work.go);
//   - each running attempt has a goroutine that blocks in the Executor, and then runs the attempt that
//     starts in its place, if any (work.go);
//   - the pump passes events to the sinks (pump.go);
//   - the timer briefly runs a goroutine when something is due (run.go);
//   - the signal router turns signals into commands (signal.go).
//
// They all enter the core by one door, Run.do. It takes the lock, steps the core with the new fact,
// and carries out the Effects. Under the lock it never writes and never waits, so commands are obeyed
// even while the reader of crew's output stands still.
//
// The interfaces below are the surroundings of a run: a Source yields tasks, an Executor runs them,
// a Recorder keeps a durable record, a Maker looks after the files that tasks make, and Sinks show
// the results.
package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

var errRunOver = errors.New("the run is over")

// Source yields tasks in input order. Next blocks until a task has been read, calls number once for
// its ID, and then returns without blocking again. At the end of the input it returns io.EOF. Any
// other error also ends the input, and fails the run once the tasks read so far have run. Next is
// called by one goroutine.
//
// A Source may have a method Buffered() bool, which reports whether the following Next will not
// block. The run then takes several tasks at a time.
type Source interface {
	Next(number func() uint64) (*task.Task, error)
}

// Executor runs attempts. It is safe for concurrent use, and may have more methods:
//
//   - OnBegun(began func(task.Attempt)), called before Wait: the Executor must call began as soon as
//     the process of an attempt runs.
//
// With core.Pool.Ahead, the Executor must be a Sender.
type Executor interface {
	// Run runs one attempt and returns when it is over; it never retries. Every failure is an
	// Outcome of the result. Lost means that nothing runs the attempt any more, and its fate is
	// unknown. ctx belongs to this attempt until Run returns. When ctx is done, Run asks the
	// attempt to end, and kills it after its KillAfter; the outcome is task.OutcomeOf the context's
	// cause. Run also enforces a task.Limit, which stands still during suspension.
	Run(ctx context.Context, a task.Attempt) *task.Result
	// Kill kills an attempt of a task if it still runs, until it has ended. Task 0 stands for
	// everything that a Streamer runs.
	Kill(id uint64, attempt int)
	// Suspend stops all attempts. Attempts that start later wait for Resume.
	Suspend()
	// Resume undoes Suspend.
	Resume()
}

// Sender is an Executor that sends the attempts of a slot to another place, where they run in turn.
type Sender interface {
	Executor
	// Expect announces an attempt before Run gets it. The attempts of a slot run in the order of
	// these calls. Expect must not wait.
	Expect(a task.Attempt)
	// Recall makes Run return an Unbegun result soon if the attempt has not begun. Otherwise it
	// does nothing.
	Recall(a task.Attempt)
}

// Streamer is an Executor whose slots hold many short attempts at a time. The run exchanges
// attempts and results with it in batches.
type Streamer interface {
	Executor
	// Serve runs the attempts of a slot, which it gets from swap. The run calls Serve in a
	// goroutine for each slot that joins. Serve returns once swap has returned task.ExpectNone,
	// every attempt it took is reported, and the slot's worker has ended.
	Serve(slot task.Slot, swap task.Swap)
	// Wake says that the next swap of a slot has something new. It may come while the slot is not
	// being served.
	Wake(slot int)
	// End asks an attempt that swap has returned to end, as the context of Run does when it is done
	// with that cause. Task 0 stands for the slot's worker itself, with everything that it runs; if it does
	// not end, End kills it later.
	End(slot int, id uint64, attempt int, cause error)
}

// Recorder records a run durably. Each method is called by the goroutine of the attempt: Started
// before the attempt starts, and Ended before its slot is used again and before a sink sees the
// result.
//
// If more is true, another Started follows at once, before either attempt starts, so both may be
// recorded together. If final is true, the task is finished; r.Before then holds its earlier failed
// attempts. A task that cannot be run has an Ended without a Started. Idle follows an Ended after
// which the slot has nothing to do; it may still come when Wait has returned.
type Recorder interface {
	Started(a task.Attempt, more bool)
	Ended(a task.Attempt, r *task.Result, final bool)
	Idle()
}

// Maker looks after the files that tasks make (task.Making). It is safe for concurrent use, and its
// methods may take time.
type Maker interface {
	// Check returns the result of a task that need not run, or nil. The result is recorded, unless
	// an earlier run did that.
	Check(t *task.Task) *task.Result
	// Begin prepares an attempt. It returns nil, and then End follows, or the result of an attempt
	// that cannot start.
	Begin(a task.Attempt) *task.Result
	// End keeps the files of a successful attempt and removes the files of a failed one. If it
	// cannot keep them, it changes the result.
	End(r *task.Result)
}

// Sink consumes events in order, a batch at a time, from one goroutine. An error from Consume ends
// the run, and after it only Close is called, with one exception: after EPIPE the run may continue
// without the reader, and Consume can count the lost output. Close is called once, after the last
// batch.
type Sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}

// Run is a run of tasks. Do is safe for concurrent use.
type Run struct {
	// configuration

	src      Source
	exec     Executor
	streamer Streamer // exec, if it is a Streamer; otherwise nil
	sender   Sender   // exec as a Sender; nil without core.Pool.Ahead
	rec      Recorder // nil for none
	maker    Maker    // nil if no task has a Making
	machine  Machine
	pump     *pump
	wake     chan struct{} // wakes the reader
	over     chan struct{} // closed when the run is over

	// state, under the lock

	mu      sync.Mutex
	core    *core.Core
	timer   *time.Timer
	timerAt time.Time // when the timer fires; zero if it is stopped
	ended   bool      // over is closed
}

// New returns a run of the tasks of src on exec. It sends events to sinks; rec may be nil. The run
// begins with Wait.
func New(cfg core.Config, src Source, exec Executor, rec Recorder, sinks []Sink) *Run {
	r := &Run{
		src: src, exec: exec, rec: rec,
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.pump = &pump{
		r: r, sinks: sinks, tick: cfg.Tick, keepRetried: cfg.Retry.Keep,
		bell: make(chan struct{}, 1), broken: make([]bool, len(sinks)),
	}
	r.streamer, _ = exec.(Streamer)
	how := core.Executor{Streams: r.streamer != nil}
	if cfg.Pool.Ahead > 0 {
		r.sender = exec.(Sender)
	}
	if t, ok := exec.(interface{ OnBegun(func(task.Attempt)) }); ok && !how.Streams && cfg.Paced() {
		how.ReportsStarts = true
		t.OnBegun(func(a task.Attempt) { r.do(func(c *core.Core) { c.Began(a) }, nil) })
	}
	r.core = core.New(cfg, how, time.Now())
	if t := cfg.Pool.Tokens; t != nil {
		t.Watch(func(err error) { r.do(func(c *core.Core) { c.Answered(err) }, nil) })
	}
	return r
}

// Machine observes the machine that the tasks run on. Its functions are safe for concurrent use.
type Machine struct {
	// Figures returns how many processes have work to do, and how many bytes are free. It is called
	// only with a bound in core.Config.Pool.Machine.
	Figures func() (processes float64, free int64)
	// Starved reports whether the kernel has killed one more process for lack of memory. It is
	// called once for each task that was killed by something other than crew. It may be nil.
	Starved func() bool
}

// SetMachine sets the observer of the machine. It must be called before Wait.
func (r *Run) SetMachine(m Machine) { r.machine = m }

// SetMaker sets the Maker. It must be called before Wait.
func (r *Run) SetMaker(m Maker) { r.maker = m }

// Wait runs the tasks until all are done or a command ends the run, and closes the sinks. It is
// called once.
//
// When it returns, all goroutines of the run have ended, except those stuck in a system call: the
// reader, if its input delivers nothing; the pump, if no one takes the output (Ending.Unshown); and
// attempts that do not end although they were killed (Ending.Abandoned).
func (r *Run) Wait() core.Ending {
	r.mu.Lock()                                  // commands may come already
	r.timer = time.AfterFunc(time.Hour, func() { // makes the core act on everything that is due
		r.do(func(*core.Core) { r.timerAt = time.Time{} }, nil)
	})
	r.mu.Unlock()
	defer r.timer.Stop()
	go r.read()
	go r.pump.run()
	r.do(func(*core.Core) {}, nil)
	<-r.over
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.Ending()
}

// Do carries out a command.
func (r *Run) Do(cmd task.Command) task.Reply {
	reply := task.Reply{Err: errRunOver}
	r.do(func(c *core.Core) { reply = c.Do(cmd) }, nil)
	return reply
}

// do is the door: it reports a fact to the core and carries out the effects. If an attempt can
// start and reuse is not nil, the first one is put there, for the caller's goroutine to run. Once
// the run is over, do does nothing.
func (r *Run) do(fact func(*core.Core), reuse *handoff) {
	for ; fact != nil; reuse = nil {
		fact = r.step(fact, reuse)
	}
}

// step is one round of do. It returns a fact that the effects have brought, or nil.
func (r *Run) step(fact func(*core.Core), reuse *handoff) (next func(*core.Core)) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil
	}
	now := time.Now()
	fx := r.core.Step(now, fact)
	r.startAttempts(fx, reuse)
	if fx.Read {
		r.wake <- struct{}{}
	}
	if fx.Show {
		r.pump.ring()
	}
	if fx.Over {
		r.ended = true
		close(r.over)
	}
	r.setTimer(now, fx.Wake)
	for _, a := range fx.Stops {
		if cancel, ok := a.Tag.(context.CancelCauseFunc); ok && a.Cause != nil {
			cancel(a.Cause)
		}
	}
	after := *fx
	r.mu.Unlock()
	for _, a := range after.Stops {
		if a.Cause == nil {
			r.exec.Kill(a.Task, a.Attempt)
		} else if r.streamer != nil {
			r.streamer.End(a.Slot, a.Task, a.Attempt, a.Cause)
		}
	}
	for _, a := range after.Recall {
		r.sender.Recall(a)
	}
	for _, slot := range after.Wakes {
		r.streamer.Wake(slot)
	}
	return r.afterStep(&after)
}

// afterStep carries out the effects that may take time: it records results, checks whether tasks must
// run, and samples the machine. It returns the fact that reports all this to the core, or nil.
func (r *Run) afterStep(fx *core.Effects) func(*core.Core) {
	var facts []func(*core.Core)
	for _, res := range fx.Record {
		if r.rec != nil {
			r.rec.Ended(task.Attempt{Task: res.Task}, res, true)
		}
		facts = append(facts, func(c *core.Core) { c.Ended(res) })
	}
	for _, t := range fx.Checks {
		skipped := r.maker.Check(t)
		facts = append(facts, func(c *core.Core) { c.Checked(t, skipped) })
	}
	if fx.Sample {
		processes, free := r.machine.Figures()
		facts = append(facts, func(c *core.Core) { c.Sampled(processes, free) })
	}
	if facts == nil {
		return nil
	}
	return func(c *core.Core) {
		for _, fact := range facts {
			fact(c)
		}
	}
}

// startAttempts runs new attempts: the first one in reuse, if that is free, and the others in
// goroutines.
func (r *Run) startAttempts(fx *core.Effects, reuse *handoff) {
	for i := range fx.Start {
		if r.sender != nil {
			r.sender.Expect(fx.Start[i].Attempt)
		}
		if reuse != nil && reuse.attempts == nil {
			reuse.begin(&fx.Start[i])
			continue
		}
		t := &handoff{}
		t.begin(&fx.Start[i])
		go r.work(t)
	}
	for _, slot := range fx.Serve {
		go r.serve(slot)
	}
	if r.streamer != nil && reuse != nil {
		reuse.attempts, reuse.expect = fx.Taken, fx.Expect
	}
}

// setTimer sets the timer to fire at at; zero stops it.
func (r *Run) setTimer(now, at time.Time) {
	if at.Equal(r.timerAt) || r.timer == nil {
		return
	}
	r.timerAt = at
	if at.IsZero() || r.ended {
		r.timer.Stop()
	} else {
		r.timer.Reset(max(at.Sub(now), 0))
	}
}
