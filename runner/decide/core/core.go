// Package core decides what a run does: what is read, what starts where, what follows
// from the end of an attempt, and how the run ends. It has no lock, no goroutine and no
// clock, and does no I/O: Core.Step takes the time and a fact, and returns what to do.
//
// The state has owners: input (which tasks are to come), queue (those that wait), pool
// (the slots and what runs there), end (how the run ends), and output (what the sinks are
// told). explain reads them to say why nothing starts.
package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// Core is a run's state machine. Its methods, Number apart, are facts and questions for
// the function that Step calls.
type Core struct {
	cfg Config
	clock
	entries  map[uint64]*entry // unfinished tasks, each in one state
	spare    []*entry          // for reuse
	skipping []skippedTask     // see forgo

	input     input
	queue     queue
	pool      pool
	end       end
	output    output
	explainer explainer

	fx Effects // of this step
}

// Effects tell the caller of Step what to do. They are valid until the next Step.
// The lists but for Start are the caller's, Taken until the next Swap of the slot.
type Effects struct {
	Tokens []func(Tokens) // to call, in order and before anything starts
	Start  []Start        // to run, each in a goroutine; none with a Streamer
	Serve  []task.Slot    // to have the Streamer serve, each in a goroutine
	Taken  []task.Attempt // to run in the slot that swaps
	Left   task.Left      // what that slot has to expect
	Wakes  []int          // slots to have the Streamer wake
	Acts   []Act          // to carry out
	Recall []task.Attempt // that the Executor is to give back unless they have begun
	Record []*task.Result // to put on record as final, and then to bring to Ended
	Checks []*task.Task   // to check whether they have to run, and then to bring to Checked
	Quiet  []task.Attempt // to bring to Core.Quiet, with how long each has been silent
	Sample bool           // bring the figures of Config.Pool.Machine to Core.Sampled
	Read   bool           // wake the reader
	Show   bool           // have the pump Take the events
	Wake   time.Time      // when to call Step even if nothing happens; zero for never
	Over   bool           // the run is over
}

// Start is an attempt that starts.
type Start struct {
	Attempt task.Attempt
	Tag     *any // for the caller, who finds it in Acts
}

// Act asks a running attempt to end because of Cause or, if that is nil, kills it.
// Task 0 stands for the process that serves the slot or, if it is killed, for all of
// these.
type Act struct {
	Slot    int
	Task    uint64
	Attempt int
	Cause   error
	Tag     any
}

// New returns a Core without tasks, whose time begins now. If streams, a Streamer serves
// its slots. cfg must be valid.
func New(cfg Config, now time.Time, streams bool) *Core {
	c := &Core{cfg: cfg, entries: map[uint64]*entry{}}
	c.tick(now)
	q, p, o := &c.queue, &c.pool, &c.output
	*q = queue{
		entries: c.entries, due: sched.NewDelay(), makers: makers{}, failed: failedTasks{tasks: map[uint64]failedTask{}},
		caps:       caps{list: cfg.Queue.Caps, claims: map[claimKey]*sched.Claim{}, hosts: cfg.Pool.Remote, names: map[string]int{}},
		lowestRank: -sched.ManualRank, highestRank: sched.ManualRank,
	}
	limits := sched.Limits{
		PerKey: cfg.Queue.PerKey, KeyRate: rateOf(cfg.Queue.KeyRate), Rate: rateOf(cfg.Queue.Rate),
		Delay: sched.Rate{Every: cfg.Pool.Delay}.From(c.run.Add(cfg.Pool.Jitter)),
		Aging: cfg.Queue.Terms, ReportsStarts: cfg.Pool.Told, Parked: q.park,
	}
	for i, limit := range cfg.Queue.Caps {
		n := len(limit.Units)
		q.caps.names[limit.Name], q.caps.held, limits.Caps = i, append(q.caps.held, make([]bool, n)), append(limits.Caps, n)
	}
	o.clock = &c.clock
	*p = pool{output: o, aheadMax: cfg.Pool.Ahead, noTimers: cfg.Pool.Remote || streams, machine: machine{cfg: cfg.Pool.Machine}}
	p.streams.on = streams
	if t := cfg.Pool.Tokens; t != nil {
		p.tokens.on, p.tokens.own = true, t.Own()
	}
	if m := cfg.Pool.Machine; m.Load > 0 || m.Memory > 0 {
		limits.Allow, p.machine.gauge = p.machine.allow, sched.NewMachine(m.Load, m.Memory)
	}
	if p.tokens.on || p.aheadMax > 0 {
		limits.AllowSlot = p.mayStart
	}
	if cfg.Queue.Policy.Serial() {
		limits.AllowItem = func(id uint64) bool { // it is the task's turn
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

// Step brings the time and a fact, and returns what follows.
func (c *Core) Step(now time.Time, fact func(*Core)) *Effects {
	fx := &c.fx
	clear(fx.Start)
	*fx = Effects{Start: fx.Start[:0]}
	c.tick(now)
	fact(c)
	c.handleDue()
	slots := c.pool.capacity / max(1, c.cfg.Pool.Window)
	c.pool.tokens.create(slots)
	for c.startNext() {
	}
	c.recallAhead()
	c.pool.tokens.settle(slots, !c.output.stats.First.IsZero())
	fx.Tokens, c.pool.tokens.calls = c.pool.tokens.calls, nil
	if m := &c.pool.machine; c.needsSample() && !c.time.Stopped() && !c.run.Before(m.gauge.Due()) {
		m.samplePending, fx.Sample = true, true
	}
	c.handOver()
	c.explain()
	fx.Read = c.shouldRead()
	fx.Show, fx.Wake = c.output.due()
	fx.Show = c.seal() && !c.end.shown || fx.Show
	fx.Over = c.end.isOver()
	fx.Wake = earlier(fx.Wake, c.nextWake())
	c.updateStreams()
	return fx
}

// handleDue handles whatever is due now.
func (c *Core) handleDue() {
	if c.time.Stopped() {
		return
	}
	for id, ok := c.queue.due.Due(c.run); ok; id, ok = c.queue.due.Due(c.run) {
		switch e := c.entries[id]; {
		case e == nil: // it has ended with the run
		case e.state == delayed && c.queue.paused: // see resume
		case e.state == delayed, e.state == timed:
			c.schedule(e)
		default:
			c.overdue(e)
		}
	}
	if c.reached(c.end.giveUpAt) {
		c.giveUp()
	}
	if c.reached(c.end.unreadAt) {
		c.handleUnread()
	}
	c.handleDeadline()
	if c.end.phase == going {
		c.checkIdleExit()
	}
}

// nextWake returns when something is due, on the machine's clock. The zero time is never.
func (c *Core) nextWake() time.Time {
	if c.time.Stopped() {
		return time.Time{}
	}
	q, d := &c.queue, &c.end
	at, _ := q.due.Next()
	at = earlier(earlier(at, d.giveUpAt), earlier(d.unreadAt, d.deadlineAt))
	if !c.input.idleAt.IsZero() && d.phase == going {
		at = earlier(at, c.input.idleAt.Add(c.cfg.Feed.IdleExit))
	}
	if d.phase == going && !q.paused {
		at = earlier(earlier(at, q.askAgain), c.pool.recheckAt)
		at = earlier(at, c.explainer.nextLook())
	}
	if c.needsSample() {
		at = earlier(at, c.pool.machine.gauge.Due())
	}
	if c.untilPending() {
		at = earlier(at, c.run.Add(clockCheckEvery-c.run.Sub(c.run.Truncate(clockCheckEvery))))
	}
	return c.time.Real(at)
}
