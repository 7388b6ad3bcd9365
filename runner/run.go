// Package runner runs tasks. It holds the run's state machine (core) and the one
// door into it (Run.do). A run has these goroutines:
//
//   - the reader takes tasks from the Source while there is room for them;
//   - each running attempt has a goroutine that blocks in the Executor and then
//     goes on with the attempt that starts in its place, if one does;
//   - the pump hands events to the sinks;
//   - the timer's goroutine runs briefly when something is due;
//   - the signal router (Signals.Serve) turns signals into commands.
//
// Each goroutine brings its facts through the door itself. The door takes the
// lock, changes the core, acts on what follows, and neither writes nor waits, so
// commands are obeyed even while the reader of crew's output stands still.
package runner

import (
	"context"
	"sync"
	"time"

	"crew/runner/task"
)

const (
	// Events are handed to the pump once there are batch of them, or lag after
	// the last time.
	batch = 256
	lag   = 10 * time.Millisecond
)

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
type Executor interface {
	// Run runs one attempt and returns when it is over; it never retries. Every
	// failure is an Outcome of the result; Lost means that nobody runs the attempt any
	// more, and that what became of it is unknown. When ctx, which is the attempt's until
	// Run returns, is done, Run asks it to end; its outcome is then Timeout if the
	// context's cause is task.ErrTimeout, and Cancelled otherwise.
	Run(ctx context.Context, a task.Attempt) *task.Result
	// Kill kills an attempt of a task, if it is still running. It may be repeated. Task 0
	// stands for whatever a Streamer runs.
	Kill(id uint64, attempt int)
	// Suspend stops all attempts. Those that start later wait for Resume.
	Suspend()
	// Resume undoes Suspend.
	Resume()
}

// Streamer is an Executor whose slots hold many brief attempts at a time. The run
// hands it attempts and takes results in batches, and leaves the attempts' timeouts
// to it.
type Streamer interface {
	Executor
	// Serve runs the attempts of a slot, which swap brings. The run calls it in a
	// goroutine for each slot that joins. It returns once swap has returned
	// task.LeftNone, every attempt it took is reported, and the slot's worker has ended.
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

	src  Source
	exec Executor
	rec  Recorder // nil for none
	pump *pump

	streamer Streamer // exec, if it is one; else nil

	began time.Time
	wake  chan struct{} // tells the reader to go on
	over  chan struct{} // closed when the run is over

	// state, under the lock

	mu      sync.Mutex
	core    *core
	spare   []*handle // for reuse
	reading bool      // the reader is awake
	handed  time.Time // when the pump last took events
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero if it is stopped
	shown   bool      // the sinks are closed

	// state of a run on a Streamer, under the lock

	lanes   []*lane   // by slot
	taker   *lane     // whose goroutine is in the door
	wakes   []int     // slots to wake
	left    task.Left // what tellLanes has told them
	resizes int       // likewise

	ended bool // over is closed
}

// handle asks an attempt to end. It is the attempt's alone from its start until the run
// takes its end: it is used in the door only, so a late end finds nobody. One that has
// asked no attempt to end then serves another.
type handle struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// job is an attempt in the hands of its goroutine. The zero job is none.
type job struct {
	attempt task.Attempt
	ctx     context.Context
	entry   *entry // to be touched in the door alone
}

// New returns a run of the tasks of src on exec. Events go to sinks; rec may be
// nil. The run begins with Wait.
func New(cfg Config, src Source, exec Executor, rec Recorder, sinks []Sink) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Run{
		src: src, exec: exec, rec: rec, core: newCore(cfg), began: time.Now(),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.pump = newPump(r, sinks, cfg.Tick, cfg.Retry.Keep)
	r.streamer, _ = exec.(Streamer)
	r.core.timeless = cfg.Pool.Remote || r.streamer != nil
	r.core.tick(r.began)
	r.core.begins()
	if t := cfg.Pool.Tokens; t != nil {
		t.Watch(func(got bool, err error) { r.do(func(c *core) { c.answered(got, err) }, nil) })
	}
	if !cfg.Pool.Remote {
		r.core.resize(cfg.Pool.Workers)
	}
	return r, nil
}

// Wait runs the tasks until all are done or a command ends the run, and closes
// the sinks. It is called once.
//
// When it returns, all goroutines of the run have ended, except those stuck in a
// system call: the reader, if its input delivers nothing; the pump, if nobody
// takes the output (Ending.Unshown); and attempts that do not end although they
// were killed (Ending.Abandoned).
func (r *Run) Wait() Ending {
	r.mu.Lock() // commands may come already
	r.timer = time.AfterFunc(time.Hour, func() { r.do(func(*core) { r.armed = time.Time{} }, nil) })
	r.mu.Unlock()
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

// Do carries out a command.
func (r *Run) Do(cmd task.Command) task.Reply {
	reply := task.Reply{Err: errOver}
	r.do(func(c *core) { reply = c.apply(cmd) }, nil)
	return reply
}

// do is the door: it applies a fact to the core and acts on what follows. If an
// attempt can start, the first goes to mine instead of a goroutine of its own,
// unless mine is nil. Once the run is over, do does nothing.
func (r *Run) do(fact func(*core), mine *job) {
	for refused := r.apply(fact, mine); len(refused) > 0; {
		if r.rec != nil {
			for _, f := range refused {
				r.rec.Ended(task.Attempt{Task: f.task}, f.result, true)
			}
		}
		refused = r.apply(func(c *core) {
			for _, f := range refused {
				if f.entry.state == decided && f.entry.result == f.result {
					c.recorded(f.entry)
				}
			}
		}, nil)
	}
}

// apply does the work of do, and returns the tasks whose end is to be recorded
// before the run goes on with them.
func (r *Run) apply(fact func(*core), mine *job) []refused {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil
	}
	c := r.core
	c.tick(r.began.Add(time.Since(r.began))) // half the cost of time.Now
	fact(c)
	c.due()
	r.start(mine)
	r.settle()
	r.deal()
	c.explain()
	r.letRead()
	r.handOver()
	r.finish()
	r.arm()
	r.tellLanes()
	if r.streamer != nil && len(c.acts) > 0 {
		r.recall()
	}
	for _, a := range c.acts {
		if a.asks() {
			a.handle.cancel(a.cause)
		}
	}
	acts, wakes, refused := c.acts, r.wakes, c.refused
	c.acts, r.wakes, c.refused = nil, nil, nil
	r.mu.Unlock()
	r.call(acts, wakes)
	return refused
}

// start starts every attempt that can start now.
func (r *Run) start(mine *job) {
	for e, ok := r.core.next(); ok; e, ok = r.core.next() {
		if r.streamer != nil {
			r.assign(e)
			continue
		}
		e.handle = r.newHandle()
		j := job{task.Attempt{Task: e.task, Number: e.attempt, Slot: *e.slot}, e.handle.ctx, e}
		if mine != nil && mine.entry == nil {
			*mine = j
		} else {
			go r.work(j)
		}
	}
}

func (r *Run) newHandle() *handle {
	if n := len(r.spare); n > 0 {
		h := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return h
	}
	h := &handle{}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// work runs an attempt and those that start in its place.
func (r *Run) work(j job) {
	for j.entry != nil {
		if r.rec != nil {
			r.rec.Started(j.attempt, false)
		}
		res := r.exec.Run(j.ctx, j.attempt)
		if r.rec != nil && !r.record(j, res) {
			return
		}
		j = r.next(j, res)
	}
	if r.rec != nil {
		r.rec.Idle()
	}
}

// record has the end of an attempt decided and recorded. The attempt keeps its
// slot until then, so at most one attempt of a slot is in doubt if crew is
// killed. It returns false if the run has given the attempt up.
func (r *Run) record(j job, res *task.Result) bool {
	final, awaited := false, false
	r.do(func(c *core) {
		if awaited = j.entry.state != nowhere; awaited {
			final = c.decide(j.entry, res)
		}
	}, nil)
	if awaited {
		r.rec.Ended(j.attempt, res, final)
	}
	return awaited
}

// next takes the end of an attempt and returns the attempt that starts in its
// place.
func (r *Run) next(j job, res *task.Result) (next job) {
	r.do(func(c *core) {
		e := j.entry
		if e.state == nowhere { // given up
			return
		}
		if e.handle.ctx.Err() == nil {
			r.spare = append(r.spare, e.handle)
		}
		e.handle = nil
		if r.rec == nil {
			c.decide(e, res)
		}
		c.recorded(e)
	}, &next)
	return next
}

// read is the reader.
func (r *Run) read() {
	number := r.core.number
	buffered := func() bool { return false }
	if s, ok := r.src.(interface{ Buffered() bool }); ok {
		buffered = s.Buffered
	}
	var tasks []*task.Task
	for {
		select {
		case <-r.wake:
		case <-r.over:
			return
		}
		for room := 1; room > 0; {
			t, err := r.src.Next(number)
			if err == nil {
				tasks = append(tasks, t)
				if len(tasks) < min(room, batch) && buffered() {
					continue
				}
			}
			if len(tasks) > 0 {
				room = r.admit(tasks)
				clear(tasks)
				tasks = tasks[:0]
			}
			if err != nil {
				r.do(func(c *core) { c.endInput(err) }, nil)
				return
			}
		}
	}
}

// admit admits tasks and returns how many more to read.
func (r *Run) admit(tasks []*task.Task) (room int) {
	r.do(func(c *core) {
		for _, t := range tasks {
			c.admit(t)
		}
		room = c.room()
		r.reading = room > 0
	}, nil)
	return room
}

// letRead wakes the reader if tasks should be read.
func (r *Run) letRead() {
	if !r.reading && r.core.low() {
		r.reading = true
		r.wake <- struct{}{}
	}
}

// handOver wakes the pump if events have waited long enough or are many.
func (r *Run) handOver() {
	c := r.core
	n := len(c.events)
	if n >= batch || n > 0 && (c.sealed || c.now.Sub(r.handed) >= lag) {
		r.pump.ring()
	}
}

// finish ends the run once the sinks have seen everything and are closed, or are
// given up.
func (r *Run) finish() {
	c := r.core
	if c.seal() && !r.shown {
		r.pump.ring()
	}
	if r.shown && c.unreadAt.IsZero() || c.ending.Unshown {
		r.ended = true
		close(r.over)
	}
}

// arm sets the timer to when the core wants to wake up or events are due.
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

// take gives the waiting events to the pump in exchange for an empty slice. If
// last, no more will come.
func (r *Run) take(empty []task.Event) (events []task.Event, last bool) {
	last = true
	r.do(func(c *core) {
		events, c.events = c.events, empty
		r.handed = c.now
		r.pump.answer()
		last = c.seal()
	}, nil)
	return events, last
}
