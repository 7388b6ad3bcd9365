// Package runner runs tasks. It owns the run's state machine (core), the door
// through which every fact enters it (Run.do), and the goroutines of a run:
//
//   - the reader asks the Source for tasks while there is room for them;
//   - an attempt is a goroutine that blocks in the Executor, and goes on with the
//     attempt that starts in its place, if one does;
//   - the pump hands events to the sinks;
//   - the timer's goroutine comes and goes when time alone asks for something;
//   - the signal router (Signals.Serve) turns signals into commands.
//
// Whoever brings a fact calls the door itself. The door takes a lock, changes the
// core, lets what follows from that happen, and never writes and never waits, so
// that a command is obeyed while the reader of the output stands still.
package runner

import (
	"context"
	"io"
	"sync"
	"time"

	"crew/runner/task"
)

const (
	// lag is how long events may wait for others to be handed over with them,
	// and batch how many need not.
	lag   = 10 * time.Millisecond
	batch = 256
)

// Source gives tasks in input order. Next blocks until there is one, then takes
// its ID by calling number once, and returns it without waiting for anything
// else. It is called by one goroutine. io.EOF ends the input; any other error
// ends it too, and fails the run after what came before has run.
type Source interface {
	Next(number func() uint64) (*task.Task, error)
}

// Executor runs attempts. It is called from many goroutines.
type Executor interface {
	// Run runs one attempt and blocks until it is over; it never retries. Every
	// way to fail is an Outcome of the result. When ctx is done the attempt is
	// asked to end; the outcome is then Timeout where the context's cause is
	// task.ErrTimeout, else Cancelled.
	Run(ctx context.Context, a task.Attempt) *task.Result
	// Kill ends the running attempt of a task at once. It does nothing where
	// there is none, and may be repeated.
	Kill(id uint64)
	// Suspend stops everything that runs, and whatever starts before Resume
	// does not run until then.
	Suspend()
	// Resume is the end of Suspend.
	Resume()
}

// Recorder is told what the run does, by the goroutine of the attempt concerned,
// before others can see it: of an attempt before it starts, and of its end
// before its slot is given to another and before any sink sees it. With final
// the task is finished, and r.Before are the attempts that failed before. A task
// that cannot be run at all ends without a start.
type Recorder interface {
	Started(a task.Attempt)
	Ended(a task.Attempt, r *task.Result, final bool)
}

// Sink takes what happened, in order, a batch at a time, from one goroutine.
// An error from Consume stops the run. Close is called once, after the last
// batch.
type Sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}

// Run is a run of tasks. Do is safe for concurrent use.
type Run struct {
	// configuration

	src  Source
	exec Executor
	rec  Recorder // nil for none
	pump *pump
	ctx  context.Context // of all attempts

	wake chan struct{} // tells the reader to go on
	over chan struct{} // closed when nothing more will happen

	// state, under the lock

	mu      sync.Mutex
	core    *core
	handles []*handle // that no attempt uses
	reading bool      // the reader goes on by itself
	handed  time.Time // when the pump last took events
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero when it does not
	shown   bool      // the sinks are closed
	ended   bool      // over is closed
}

// handle is how the run ends an attempt. It goes from attempt to attempt until
// one of them is cancelled.
type handle struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// job is an attempt with what ends it.
type job struct {
	attempt task.Attempt
	handle  *handle
}

// New makes a run of the tasks of src on exec, which shows what happens to
// sinks, and tells rec where that is not nil. Wait runs it.
func New(cfg Config, src Source, exec Executor, rec Recorder, sinks []Sink) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Run{
		src: src, exec: exec, rec: rec, core: newCore(cfg), ctx: context.Background(),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.pump = newPump(r, sinks, cfg.Tick, cfg.Retry.Keep)
	r.core.tick(time.Now())
	r.core.explainer.since = r.core.run
	r.core.resize(cfg.Pool.Workers)
	return r, nil
}

// Wait runs everything until all is done or a command ends it, closes the sinks
// and returns how it went. It is called once.
//
// All goroutines of the run have ended when it returns, except those that a
// system call may hold: the reader in a read of an input that never comes, the
// pump in a write that nobody takes (Ending.Unshown), and attempts that do not
// end (Ending.Abandoned).
func (r *Run) Wait() Ending {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.ctx = ctx
	r.timer = time.AfterFunc(time.Hour, func() { r.do(func(*core) { r.armed = time.Time{} }, nil) })
	defer r.timer.Stop()
	go r.read()
	go r.pump.run()
	r.do(func(*core) {}, nil)
	<-r.over
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.balance()
	r.core.ending.Stats = r.core.stats
	return r.core.ending
}

// Do asks something of the run.
func (r *Run) Do(cmd task.Command) task.Reply {
	reply := task.Reply{Err: errOver}
	r.do(func(c *core) { reply = c.apply(cmd) }, nil)
	return reply
}

// do is the door: it lets a fact into the core and does what follows from it. An
// attempt's goroutine takes what starts next into mine. Once the run is over
// nothing gets in, and do is false.
func (r *Run) do(fact func(*core), mine *job) bool {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return false
	}
	c := r.core
	c.tick(time.Now())
	fact(c)
	c.due()
	r.start(mine)
	c.explain()
	r.letRead()
	r.handOver()
	r.finish()
	r.arm()
	acts := c.acts
	c.acts = nil
	r.mu.Unlock()
	for _, a := range acts {
		if a.kill {
			r.exec.Kill(a.task)
		} else {
			a.handle.cancel(a.cause)
		}
	}
	return true
}

// start starts all that may start now, each in a goroutine of its own, but for
// the one that the caller takes.
func (r *Run) start(mine *job) {
	for e, ok := r.core.next(); ok; e, ok = r.core.next() {
		j := job{task.Attempt{Task: e.task, Number: e.attempt, Slot: e.slot}, r.newHandle()}
		e.handle = j.handle
		if mine != nil && mine.handle == nil {
			*mine = j
		} else {
			go r.work(j)
		}
	}
}

func (r *Run) newHandle() *handle {
	if n := len(r.handles); n > 0 {
		h := r.handles[n-1]
		r.handles = r.handles[:n-1]
		return h
	}
	h := &handle{}
	h.ctx, h.cancel = context.WithCancelCause(r.ctx)
	return h
}

// work runs an attempt, and others after it as long as one starts when one has
// ended.
func (r *Run) work(j job) {
	for j.handle != nil {
		if r.rec != nil {
			r.rec.Started(j.attempt)
		}
		res := r.exec.Run(j.handle.ctx, j.attempt)
		if r.rec != nil && !r.record(j.attempt, res) {
			return
		}
		j = r.next(j, res)
	}
}

// record has the end of an attempt recorded. The attempt holds its slot
// meanwhile, so no other is in doubt should crew be killed here. It is false
// where nobody waits for the attempt any more.
func (r *Run) record(a task.Attempt, res *task.Result) bool {
	final, awaited := false, false
	r.do(func(c *core) {
		if e := c.awaited(a.Task.ID); e != nil {
			final, awaited = c.decide(e, res), true
		}
	}, nil)
	if awaited {
		r.rec.Ended(a, res, final)
	}
	return awaited
}

// next takes in the end of an attempt, and is the one that starts in its place.
func (r *Run) next(j job, res *task.Result) (next job) {
	r.do(func(c *core) {
		if e := c.awaited(j.attempt.Task.ID); e != nil {
			if r.rec == nil {
				c.decide(e, res)
			}
			c.recorded(e)
		}
		if j.handle.ctx.Err() == nil {
			r.handles = append(r.handles, j.handle)
		}
	}, &next)
	return next
}

// read is the reader.
func (r *Run) read() {
	for {
		select {
		case <-r.wake:
		case <-r.over:
			return
		}
		for more := true; more; {
			t, err := r.src.Next(r.core.number)
			if err != nil {
				r.do(func(c *core) { c.noMore(err) }, nil)
				return
			}
			more = r.admit(t)
		}
	}
}

// admit takes in a task that was read, and says whether to read on.
func (r *Run) admit(t *task.Task) (more bool) {
	var refused *task.Result
	r.do(func(c *core) {
		refused = c.admit(t)
		if refused != nil && r.rec == nil {
			c.recorded(c.entries[t.ID])
		}
		more = c.room() > 0
		r.reading = more
	}, nil)
	if refused != nil && r.rec != nil {
		r.rec.Ended(task.Attempt{Task: t}, refused, true)
		r.do(func(c *core) { c.recorded(c.entries[t.ID]) }, nil)
	}
	return more
}

// letRead wakes the reader where tasks should be read.
func (r *Run) letRead() {
	if !r.reading && r.core.low() {
		r.reading = true
		r.wake <- struct{}{}
	}
}

// handOver wakes the pump where events have waited for long enough, or are many.
func (r *Run) handOver() {
	c := r.core
	n := len(c.events)
	if n >= batch || n > 0 && (c.sealed || c.now.Sub(r.handed) >= lag) {
		r.pump.ring()
	}
}

// finish ends the run where nothing more will happen: the sinks have seen all
// and are closed, or are given up.
func (r *Run) finish() {
	c := r.core
	if c.seal() && !r.shown {
		r.pump.ring()
	}
	if r.shown || c.ending.Unshown {
		r.ended = true
		close(r.over)
	}
}

// arm sets the timer for the core's next moment, or for the next look at the
// events.
func (r *Run) arm() {
	c := r.core
	at := c.wake()
	if n := len(c.events); n > 0 && n < batch {
		if look := r.handed.Add(lag); look.After(c.now) {
			at = earlier(at, look)
		}
	}
	if at.Equal(r.armed) || r.timer == nil {
		return
	}
	r.armed = at
	if at.IsZero() || r.ended {
		r.timer.Stop()
		return
	}
	r.timer.Reset(max(at.Sub(c.now), 0))
}

// take hands the waiting events to the pump, which gives used room for others in
// exchange. With last no others will come.
func (r *Run) take(room []task.Event) (events []task.Event, last bool) {
	last = true
	r.do(func(c *core) {
		events, c.events = c.events, room
		r.handed = c.now
		last = c.seal()
	}, nil)
	return events, last
}

func (r *Run) stats() task.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.stats
}

// noMore says how the input ended.
func (c *core) noMore(err error) {
	if err == io.EOF {
		c.endInput()
	} else {
		c.inputFailed(err)
	}
}
