// Package runner runs tasks. It holds the one door (Run.do) into the run's state machine
// (package core), and carries out what that decides. A run has these goroutines:
//
//   - the reader takes tasks from the Source while there is room for them;
//   - each running attempt has a goroutine that blocks in the Executor and then
//     goes on with the attempt that starts in its place, if one does;
//   - the pump hands events to the sinks;
//   - the timer's goroutine runs briefly when something is due;
//   - the signal router (Signals.Serve) turns signals into commands.
//
// Each goroutine brings its facts through the door itself. The door takes the
// lock, takes a step of the core, carries out what follows, and neither writes nor waits,
// so commands are obeyed even while the reader of crew's output stands still.
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

// Source yields tasks in input order. Next blocks until a task has been read,
// calls number once for its ID, and then returns without blocking again. At the
// end of the input it returns io.EOF. Any other error ends the input too and
// fails the run once the tasks read so far have run. One goroutine calls Next.
//
// A Source may have a method Buffered() bool, which returns true if the next Next will
// not block: the run then takes several tasks at a time.
type Source interface {
	Next(number func() uint64) (*task.Task, error)
}

// Executor runs attempts. It is safe for concurrent use.
//
// It may have a method Tell(func(task.Attempt)) that takes, before Wait, what is to be called once
// the process of an attempt runs.
//
// With core.Pool.Ahead it is a Sender.
//
// With core.Limit.Idle it has a method Silence(task.Attempt) time.Duration, unless it ends
// silent attempts itself. Silence returns for how long an attempt has written nothing,
// without the time for which it was suspended; 0 if no process of it runs.
type Executor interface {
	// Run runs one attempt and returns when it is over; it never retries. Every
	// failure is an Outcome of the result; Lost means that nobody runs the attempt any
	// more, and that what became of it is unknown. When ctx, which is the attempt's until
	// Run returns, is done, Run asks it to end; its outcome is then Timeout if the
	// context's cause is task.ErrTimeout or a task.Silent, which is its Err then, and
	// Cancelled otherwise.
	Run(ctx context.Context, a task.Attempt) *task.Result
	// Kill kills an attempt of a task, if it is still running. It may be repeated. Task 0
	// stands for whatever a Streamer runs.
	Kill(id uint64, attempt int)
	// Suspend stops all attempts. Those that start later wait for Resume.
	Suspend()
	// Resume undoes Suspend.
	Resume()
}

// Sender is an Executor that sends the attempts of a slot to where they run in turn.
type Sender interface {
	Executor
	// Expect says in what order those of a slot come. Run follows for each. It must not wait.
	Expect(a task.Attempt)
	// Recall has Run return an Unbegun result soon if the attempt has not begun. Otherwise it
	// does nothing.
	Recall(a task.Attempt)
}

// Streamer is an Executor whose slots hold many brief attempts at a time. The run
// hands it attempts and takes results in batches, and leaves the attempts' timeouts
// to it.
type Streamer interface {
	Executor
	// Serve runs the attempts of a slot, which swap brings. The run calls it in a
	// goroutine for each slot that joins. It returns once swap has returned
	// task.ExpectNone, every attempt it took is reported, and the slot's worker has ended.
	Serve(slot task.Slot, swap task.Swap)
	// Wake says that the next swap of a slot has something new. It may come when no Serve
	// of the slot runs.
	Wake(slot int)
	// End asks an attempt that a swap of the slot has returned to end, as the context of
	// Run does when it is done with that cause. Task 0 stands for the slot's worker itself,
	// with all that it runs: if it does not end, End has it killed later.
	End(slot int, id uint64, attempt int, cause error)
}

// Recorder records a run durably. Each method is called by the goroutine of the
// attempt: Started before the attempt starts, Ended before its slot is used again
// and before a sink sees the result. more means that the start may be recorded
// together with the next one: that follows at once, before either attempt starts.
// final means that the task is finished; r.Before then holds its earlier failed
// attempts. A task that cannot be run has an Ended without a Started. Idle follows an
// Ended after which the slot has nothing to do, and may still come when Wait has
// returned.
type Recorder interface {
	Started(a task.Attempt, more bool)
	Ended(a task.Attempt, r *task.Result, final bool)
	Idle()
}

// Maker looks after the files that tasks make (task.Making). It is safe for concurrent use;
// each method may do what takes time.
type Maker interface {
	// Check returns the result of a task that need not run, which is recorded unless an
	// earlier run has done so, or nil.
	Check(t *task.Task) *task.Result
	// Begin prepares an attempt. It returns the result of one that cannot start, or else
	// nil; then End follows.
	Begin(a task.Attempt) *task.Result
	// End keeps what an attempt has made if that succeeded, and removes it otherwise. It
	// changes the result if that cannot be kept.
	End(r *task.Result)
}

// Sink consumes events in order, a batch at a time, from one goroutine. An error
// from Consume ends the run. Then only Close is called, except after an EPIPE: the
// run may go on without the reader, and Consume can count what is lost. Close is
// called once, after the last batch.
type Sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}

// Run is a run of tasks. Do is safe for concurrent use.
type Run struct {
	// configuration

	src      Source
	exec     Executor
	streamer Streamer    // exec, if it is one; else nil
	sender   Sender      // exec, with core.Pool.Ahead; else nil
	rec      Recorder    // nil for none
	maker    Maker       // nil if no task has a Making
	tokens   core.Tokens // nil for none
	machine  Machine
	pump     *pump
	wake     chan struct{} // tells the reader to go on
	over     chan struct{} // closed when the run is over

	// state, under the lock

	mu        sync.Mutex
	core      *core.Core
	clockRead time.Time // when the machine's clock was last read
	timer     *time.Timer
	timerAt   time.Time // when the timer fires; zero if it is stopped
	ended     bool      // over is closed
}

// New returns a run of the tasks of src on exec. Events go to sinks; rec may be
// nil. The run begins with Wait.
func New(cfg core.Config, src Source, exec Executor, rec Recorder, sinks []Sink) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Run{
		src: src, exec: exec, rec: rec, tokens: cfg.Pool.Tokens, clockRead: time.Now(),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.pump = newPump(r, sinks, cfg.Tick, cfg.Retry.Keep)
	r.streamer, _ = exec.(Streamer)
	if cfg.Pool.Ahead > 0 {
		r.sender = exec.(Sender)
	}
	if t, ok := exec.(interface{ Tell(func(task.Attempt)) }); ok && r.streamer == nil && cfg.Paced() {
		cfg.Pool.ReportsStarts = true
		t.Tell(func(a task.Attempt) { r.do(func(c *core.Core) { c.Began(a) }, nil) })
	}
	r.core = core.New(cfg, r.clockRead, r.streamer != nil)
	if r.tokens != nil {
		r.tokens.Watch(func(got bool, err error) { r.do(func(c *core.Core) { c.Answered(got, err) }, nil) })
	}
	return r, nil
}

// Machine tells of the machine that the tasks run on. Its functions are safe for concurrent use.
type Machine struct {
	// Figures returns how many processes have something to do, and how many bytes are free. It
	// is called only with a bound in core.Config.Pool.Machine.
	Figures func() (processes float64, free int64)
	// Starved reports whether the kernel has killed one more process for want of memory. It is
	// called once for each task that was killed by somebody else. It may be nil.
	Starved func() bool
}

// SetMachine has m tell of the machine. It must come before Wait.
func (r *Run) SetMachine(m Machine) { r.machine = m }

// SetMaker has m look after the files that tasks make. It must come before Wait.
func (r *Run) SetMaker(m Maker) { r.maker = m }

// Wait runs the tasks until all are done or a command ends the run, and closes
// the sinks. It is called once.
//
// When it returns, all goroutines of the run have ended, except those stuck in a
// system call: the reader, if its input delivers nothing; the pump, if nobody
// takes the output (Ending.Unshown); and attempts that do not end although they
// were killed (Ending.Abandoned).
func (r *Run) Wait() core.Ending {
	r.mu.Lock() // commands may come already
	r.timer = time.AfterFunc(time.Hour, r.onTimer)
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

// readClock reads the machine's clock, which can be set and goes on while the machine sleeps.
// step only adds to the time that was read.
func (r *Run) readClock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clockRead = time.Now()
}

// onTimer has the core look at what is due.
func (r *Run) onTimer() {
	r.readClock()
	r.do(func(*core.Core) { r.timerAt = time.Time{} }, nil)
}

// Do carries out a command.
func (r *Run) Do(cmd task.Command) task.Reply {
	r.readClock()
	reply := task.Reply{Err: errRunOver}
	r.do(func(c *core.Core) { reply = c.Do(cmd) }, nil)
	return reply
}

// do is the door: it brings a fact to the core and carries out what follows. If an
// attempt can start, the first goes to reuse instead of a goroutine of its own,
// unless reuse is nil. Once the run is over, do does nothing.
func (r *Run) do(fact func(*core.Core), reuse *handoff) {
	for ; fact != nil; reuse = nil {
		fact = r.step(fact, reuse)
	}
}

// step does the work of do, and returns the next fact, if it brings one itself.
func (r *Run) step(fact func(*core.Core), reuse *handoff) (next func(*core.Core)) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil
	}
	now := r.clockRead.Add(time.Since(r.clockRead)) // half the cost of time.Now
	fx := r.core.Step(now, fact)
	for _, call := range fx.Tokens {
		call(r.tokens)
	}
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
	for _, a := range fx.Acts {
		if cancel, ok := a.Tag.(context.CancelCauseFunc); ok && a.Cause != nil {
			cancel(a.Cause)
		}
	}
	after := *fx
	r.mu.Unlock()
	for _, a := range after.Acts {
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

// afterStep records results, asks how long attempts have been silent, checks whether tasks have
// to run, takes a sample of the machine's figures, and returns the fact that this is done, or nil.
func (r *Run) afterStep(fx *core.Effects) func(*core.Core) {
	var facts []func(*core.Core)
	for _, res := range fx.Record {
		if r.rec != nil {
			r.rec.Ended(task.Attempt{Task: res.Task}, res, true)
		}
		facts = append(facts, func(c *core.Core) { c.Ended(res) })
	}
	for _, a := range fx.Quiet {
		silent := r.exec.(interface {
			Silence(task.Attempt) time.Duration
		}).Silence(a)
		facts = append(facts, func(c *core.Core) { c.Quiet(a, silent) })
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

// startAttempts has goroutines run what starts.
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

// setTimer sets the timer.
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
