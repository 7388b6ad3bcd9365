// Package core is the state machine of a run: it decides which tasks are read, which attempt starts
// in which slot, what follows when an attempt ends, why nothing starts, and how the run ends.
//
// Everything that happens is a fact: tasks were read, an attempt ended, a command came, a timer
// fired. The caller passes each fact to Core.Step, together with the time, and carries out the
// Effects that Step returns. The core has no lock, no goroutine and no clock, and does no I/O.
//
// An unfinished task is one entry, in one state at a time:
//
//	following → held → timed → checking → queued ⇄ parked → running → decided → finished
//	                                        ↑                            │
//	                                        └────────── delayed ─────────┘
//
// Most tasks skip the first four states. A task is decided while its result is being recorded; then
// it is finished, or delayed until its next attempt.
//
// The fields of Core are divided among owners:
//
//   - input: the tasks that are still to come
//   - queue: the tasks that wait, and the sched.Dispatcher that chooses among them
//   - pool: the slots and the attempts in them
//   - end: how far the run has come towards its end, and why it ends
//   - output: the events for the sinks, their totals, and the order of results
//   - explainer: whether the user should be told why nothing starts
//
// Begin with Step and startNext, and then follow one task through admit, schedule, begin, decideEnd
// and finish.
package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// Core is the state of a run. Step brings it a fact, and only that fact may call the other exported
// methods, with three exceptions: Stats and Ending may also be called between two Steps, and Number
// at any time.
type Core struct {
	cfg  Config
	exec Executor
	clock
	entries  map[uint64]*entry // unfinished tasks, each in one state
	spare    []*entry          // for reuse: without them, persistent workers with a window of 64 take 1.14 times as long
	skipping []*task.Result    // see skip

	input     input
	queue     queue
	pool      pool
	end       end
	output    output
	explainer explainer

	fx Effects // of the current step
}

// Effects tell the caller of Step what to do. They are valid until the next Step. The lists except
// Start may be kept, Taken until the next Swap of its slot.
type Effects struct {
	Start  []Start          // attempts to run, each in a goroutine; none with a Streamer
	Serve  []task.Slot      // slots for the Streamer to serve, each in a goroutine
	Taken  []task.Attempt   // attempts to run in the slot that swaps
	Expect task.Expectation // the work that this slot can expect
	Wakes  []int            // slots for the Streamer to wake
	Stops  []Stop           // attempts to end
	Recall []task.Attempt   // attempts that the Executor must give back unless they have begun
	Record []*task.Result   // final results to record and then pass to Core.Ended
	Checks []*task.Task     // tasks to check for being up to date; the results go to Core.Checked
	Sample bool             // measure the load and the free memory of the machine, for Core.Sampled
	Read   bool             // wake the reader
	Show   bool             // wake the pump, which calls Core.Take
	Wake   time.Time        // when to call Step even if nothing happens; zero for never
	Over   bool             // the run is over
}

// Start is an attempt that starts.
type Start struct {
	Attempt task.Attempt
	Tag     *any // for the caller, and later in Stop.Tag
}

// Stop asks a running attempt to end because of Cause or, if Cause is nil, kills it. Task 0 means
// the worker process that serves the slot or, if Cause is nil, the worker processes of all slots.
type Stop struct {
	Slot    int
	Task    uint64
	Attempt int
	Cause   error
	Tag     any
}

// New returns a Core with no tasks. The run's clock starts at now.
func New(cfg Config, exec Executor, now time.Time) *Core {
	c := &Core{cfg: cfg, exec: exec, entries: map[uint64]*entry{}}
	c.tick(now)
	q, p, o := &c.queue, &c.pool, &c.output
	*q = queue{
		entries: c.entries, makers: makers{}, failed: failedTasks{tasks: map[uint64]failedTask{}},
		caps:       caps{list: cfg.Queue.Caps, units: map[string][]string{}, held: map[unit]bool{}, fromHosts: cfg.Pool.Remote},
		lowestRank: -sched.ManualRank, highestRank: sched.ManualRank,
	}
	limits := sched.Limits{
		PerKey: cfg.Queue.PerKey, KeyRate: rateOf(cfg.Queue.KeyRate), Rate: rateOf(cfg.Queue.Rate),
		Delay: sched.Rate{Every: cfg.Pool.Delay}.From(c.run.Add(cfg.Pool.Jitter)), ReportsStarts: exec.ReportsStarts, Parked: q.park,
		Allow: p.machine.allow, AllowSlot: p.mayStart,
	}
	for _, limit := range cfg.Queue.Caps {
		q.caps.units[limit.Name] = limit.Units
		limits.Caps = append(limits.Caps, sched.Units{Name: limit.Name, N: len(limit.Units)})
	}
	o.clock = &c.clock
	*p = pool{output: o, aheadMax: cfg.Pool.Ahead, machine: machine{cfg: cfg.Pool.Machine}}
	if p.tokens.Tokens = cfg.Pool.Tokens; p.tokens.Tokens != nil {
		p.tokens.own = p.tokens.Own()
	}
	if cfg.Queue.Policy.Serial() {
		limits.AllowItem = func(id uint64) bool {
			e := c.entries[id]
			e.hasTurn = true
			return !c.mustWait(e)
		}
	}
	q.ready = sched.NewDispatcher(cfg.Queue.Policy, limits)
	p.ready = q.ready
	if cfg.Queue.Terms {
		q.succeeded = sched.NewRanges(asideTasks)
	}
	if cfg.Order.Keep {
		o.order = sched.NewReorder(1)
	}
	c.explainer.lastLook = c.run
	if d := cfg.Limit.Run; d > 0 {
		c.end.deadlineAt = c.run.Add(d)
	}
	if !cfg.Pool.Remote {
		c.pool.resize(cfg.Pool.Workers, cfg.Pool.Window)
	}
	return c
}

// Step takes a fact that happened at now, and returns what to do.
func (c *Core) Step(now time.Time, fact func(*Core)) *Effects {
	fx := &c.fx
	clear(fx.Start)
	*fx = Effects{Start: fx.Start[:0]}
	c.tick(now)
	fact(c)
	c.handleDue()
	c.pool.tokens.create(c.pool.joined)
	for c.startNext() {
	}
	c.recallAhead()
	c.pool.tokens.settle(c.pool.joined, !c.output.stats.First.IsZero())
	if m := &c.pool.machine; c.needsSample() && !c.time.Stopped() && !c.run.Before(m.due()) {
		m.samplePending, fx.Sample = true, true
	}
	c.handOver()
	c.explain()
	fx.Read = c.shouldRead()
	fx.Show, fx.Wake = c.output.due()
	fx.Show = c.seal() && !c.end.shown || fx.Show
	// The run is over if the sinks are closed and no signal is awaited, or the output is given up.
	fx.Over = c.end.shown && c.end.closedPipeAt.IsZero() || c.end.Unshown
	fx.Wake = earlier(fx.Wake, c.nextWake())
	c.updateStreams()
	return fx
}

// handleDue acts on everything that is due.
func (c *Core) handleDue() {
	if c.time.Stopped() {
		return
	}
	for id, ok := c.queue.due.Due(c.run); ok; id, ok = c.queue.due.Due(c.run) {
		if e := c.entries[id]; e != nil && (e.state == timed || !c.queue.paused) { // resume sets delayed tasks up again
			c.schedule(e)
		}
	}
	if c.reached(c.end.giveUpAt) {
		c.giveUp()
	}
	if c.reached(c.end.closedPipeAt) {
		c.handleClosedPipe()
	}
	c.handleDeadline()
	if c.end.phase == going {
		c.checkIdleExit()
	}
}

// nextWake returns when Step must be called next, on the machine's clock; zero for never.
func (c *Core) nextWake() time.Time {
	if c.time.Stopped() {
		return time.Time{}
	}
	q, d := &c.queue, &c.end
	at, _ := q.due.Next()
	at = earlier(earlier(at, d.giveUpAt), earlier(d.closedPipeAt, d.deadlineAt))
	if !c.input.idleAt.IsZero() && d.phase == going {
		at = earlier(at, c.input.idleAt.Add(c.cfg.Feed.IdleExit))
	}
	if d.phase == going && !q.paused {
		at = earlier(earlier(at, q.askAgain), c.pool.recheckAt)
		if x := &c.explainer; x.idle || x.reported != nil {
			at = earlier(at, x.lastLook.Add(explainEvery))
		}
	}
	if c.needsSample() {
		at = earlier(at, c.pool.machine.due())
	}
	if c.untilPending() {
		at = earlier(at, c.run.Add(clockCheckEvery-c.run.Sub(c.run.Truncate(clockCheckEvery))))
	}
	return c.time.Real(at)
}
