package runner

import (
	"fmt"
	"sync/atomic"
	"time"

	"crew/runner/task"
	"crew/sched"
)

const (
	// outboxFull is the number of events waiting for the sinks at which nothing
	// more starts, so that a stalled reader of the output slows the run down.
	outboxFull = 4096
	// fewTasks may be read ahead whatever their size, unless Pool.Few says how many.
	fewTasks = 64
	// asideTasks and asideBytes bound the tasks that wait outside the read-ahead,
	// for a retry or for a limit. Pool.Bytes is allowed, too.
	asideTasks = 32 << 10
	asideBytes = 16 << 20
	// balanceEvery is how often automatic topics share out the slots again.
	balanceEvery = time.Second
	// margin is added to the grace of the tasks when the run is told to end: time
	// for the kernel to end them and for a reader to take the rest of the output.
	// It is also the interval at which a kill is repeated.
	margin = time.Second
	// poison is how many of its attempts a task may lose until nobody should run it
	// any more: it may be what their workers die of.
	poison = 5
	// returnedWait is how much longer a task waits each time that it comes back without
	// having begun: there may be no worker that really takes it.
	returnedWait = 100 * time.Millisecond
	// moment is how long a run whose reader has gone waits for a signal. Ctrl-C
	// reaches all of a pipeline, and the reader may die before crew has noticed. If
	// tasks are running, the run waits for up to moments, since a busy machine can
	// take long to deliver a signal.
	moment  = 10 * time.Millisecond
	moments = 10
)

// core is the run's state machine. It has no lock, no goroutine and no clock, and
// does no I/O. After tick has told it the time, it takes facts (a task was read,
// an attempt ended, a command) and answers questions (may the reader go on, what
// starts now, when to wake up, is the run over). Only Run.do uses it.
type core struct {
	cfg Config

	// time

	now   time.Time // on the machine's clock
	run   time.Time // on the run's clock, for deadlines
	at    time.Time // what events get: now, or when the clock stopped
	clock clock

	// unfinished tasks, each in one state

	entries  map[uint64]*entry
	spare    []*entry    // for reuse
	count    [states]int // tasks by state
	bytes    [states]int // their sizes by state
	policy   sched.Policy
	limit    *sched.Limiter // nil without a limit per key
	delayed  *sched.Delay
	order    *sched.Reorder // of results; nil without Order.Keep
	deadline *sched.Delay   // of running tasks: when overdue is called for them

	// the pool

	slots     []*task.Slot // by ID; nil if there is none
	capacity  int          // of all slots together
	running   int          // tasks that hold a slot
	holders   *entry       // the first of these, in no order
	nextStart time.Time    // not before this time, because of Pool.Delay
	resizes   int          // how often slots have joined or left
	timeless  bool         // the executor ends attempts at their timeouts
	usage     *usages      // nil unless topics are automatic
	tokens    tokens
	balanceAt time.Time
	explainer explainer

	// tasks that commands bring or refer to

	after   map[uint64][]uint64 // by task: those that come after it
	memory  memory              // empty without Feed.Remember
	skipped uint64              // numbers below numbered that no task has
	rest    bool                // nothing more is read or added
	fed     bool                // task.Add has come
	idleAt  time.Time           // when the last task finished; zero if some are unfinished
	refused []refused           // tasks that cannot be run, to be recorded

	// progress

	numbered  atomic.Uint64 // the last task number handed out
	inputEnd  bool
	paused    bool
	phase     phase
	sealed    bool      // every task has an outcome, and no more are admitted
	giveUpAt  time.Time // when a run that was told to end stops waiting; zero is never
	unreadAt  time.Time // when a run whose reader has just gone acts on that; zero is never
	unreadFor int       // moments that have passed since
	lateAt    time.Time // when deadlineDue takes its next step; zero is never
	overtime  bool      // the run's time is over
	stats     task.Stats
	counted   *task.Result // the latest result that Config.Halt counts
	ending    Ending

	// output

	events []task.Event // for the sinks
	acts   []act        // for the executor

	// of a Streamer

	serving int // slots that are being served
}

// phase is how far the run has come towards its end. It never goes back.
type phase uint8

const (
	going    phase = iota
	draining       // nothing more starts; running attempts may finish
	stopping       // running attempts are asked to end
	killing        // running attempts are killed
)

// state is the state of a task.
type state uint8

const (
	nowhere state = iota // not admitted, or finished
	queued               // in the policy
	parked               // in the limiter
	held                 // waiting for the tasks that it comes after
	delayed              // waiting for its next attempt
	running              // in a slot
	decided              // its end is being recorded; a task that ran still holds its slot
	states
)

// entry is an unfinished task.
type entry struct {
	task *task.Task
	item sched.Item
	size int

	state     state
	stage     stage
	cancelled bool
	again     bool // if decided: another attempt follows
	awaits    int  // if held: the number of tasks

	slot     *task.Slot     // the slot it holds; nil if none
	prev     *entry         // in core.holders
	next     *entry         // likewise
	attempt  int            // number of the running attempt, or of the last one
	since    time.Time      // when that attempt began, on the machine's clock
	begun    time.Time      // the same on the run's clock
	due      time.Time      // if delayed: when the next attempt may start
	failures int            // failed attempts; each used up a retry
	losses   int            // lost attempts of this run that had begun; none did
	returned int            // those that had not
	back     bool           // the latest one had not
	before   []*task.Result // the failed and lost attempts, without those that had not begun
	omitted  int            // those that before leaves out
	handle   *handle        // of the attempt; nil if a Streamer runs it, or none does
	result   *task.Result   // if decided
}

// refused is a task that ends as start-failed without an attempt.
type refused struct {
	entry  *entry
	task   *task.Task
	result *task.Result
}

// stage is how far the run has gone in ending an attempt.
type stage uint8

const (
	untouched  stage = iota
	terminated       // asked to end
	killed
)

// act asks a running attempt to end because of cause or, if that is nil, kills it.
// Task 0 stands for all workers of a Streamer.
type act struct {
	handle  *handle // that of the entry
	slot    int
	task    uint64
	attempt int
	cause   error
}

// asks reports whether a context carries the act out.
func (a *act) asks() bool { return a.cause != nil && a.handle != nil }

func newCore(cfg Config) *core {
	c := &core{
		cfg: cfg, policy: cfg.Pool.Policy,
		entries: map[uint64]*entry{}, after: map[uint64][]uint64{}, delayed: sched.NewDelay(), deadline: sched.NewDelay(),
	}
	if cfg.Pool.Procs > 0 {
		c.usage = newUsages(cfg.Pool.Procs)
	}
	if cfg.Pool.PerKey > 0 && !c.policy.Serial() {
		// A serial policy keeps the order of a key itself. A limiter would give
		// the turn of a task that waits for its retry to the next one and jam it.
		c.limit = sched.NewLimiter(cfg.Pool.PerKey)
	}
	if t := cfg.Pool.Tokens; t != nil {
		c.tokens.on, c.tokens.own = true, t.Own()
	}
	if cfg.Order.Keep {
		c.order = sched.NewReorder(1)
	}
	return c
}

// tick sets the time.
func (c *core) tick(now time.Time) {
	c.now, c.run = now, c.clock.at(now)
	c.at = c.clock.real(c.run)
}

// emit counts an event and passes it on to the sinks.
func (c *core) emit(e task.Event) {
	e.At = c.at
	c.stats.Apply(&e)
	c.events = append(c.events, e)
}

// event adds an event of a task, for the caller to fill in and count. With four events
// of every task, this takes 5 % less time than emit.
func (c *core) event(kind task.Kind, id uint64, t *task.Task) *task.Event {
	n := len(c.events)
	if n < cap(c.events) {
		c.events = c.events[:n+1] // the pump has cleared it
	} else {
		c.events = append(c.events, task.Event{})
	}
	e := &c.events[n]
	e.Kind, e.At, e.ID, e.Task = kind, c.at, id, t
	return e
}

// set moves a task to another state.
func (c *core) set(e *entry, s state) {
	c.count[e.state]--
	c.bytes[e.state] -= e.size
	e.state = s
	c.count[s]++
	c.bytes[s] += e.size
}

// due handles whatever is due now.
func (c *core) due() {
	if c.clock.stopped() {
		return
	}
	for id, ok := c.deadline.Due(c.run); ok; id, ok = c.deadline.Due(c.run) {
		c.overdue(c.entries[id])
	}
	if !c.giveUpAt.IsZero() && !c.run.Before(c.giveUpAt) {
		c.giveUp()
	}
	if !c.unreadAt.IsZero() && !c.run.Before(c.unreadAt) {
		c.unreadDue()
	}
	c.deadlineDue()
	if c.phase > going {
		return
	}
	c.idle()
	if c.paused {
		return
	}
	for id, ok := c.delayed.Due(c.run); ok; id, ok = c.delayed.Due(c.run) {
		c.enqueue(c.entries[id])
	}
	if c.usage != nil && !c.run.Before(c.balanceAt) {
		c.balanceAt = c.run.Add(balanceEvery)
		c.policy.Balance(c.usage.most())
	}
}

// idle ends a run that has had nothing to do for Feed.IdleExit.
func (c *core) idle() {
	limit := c.cfg.Feed.IdleExit
	switch {
	case limit == 0 || !c.fed:
	case len(c.entries) > 0:
		c.idleAt = time.Time{}
	case c.idleAt.IsZero():
		c.idleAt = c.run
	case !c.run.Before(c.idleAt.Add(limit)):
		c.endFeed()
		c.rest = true
	}
}

// next starts an attempt if one can start now, and returns its task.
func (c *core) next() (*entry, bool) {
	c.tokens.short = false
	if c.phase > going || c.paused || c.clock.stopped() || len(c.events) >= outboxFull || c.run.Before(c.nextStart) {
		return nil, false
	}
	s := c.policy.Ready()
	if s == 0 {
		return nil, false
	}
	if !c.tokens.allow(s) {
		return c.nextBeside()
	}
	it, ok := c.policy.Pop(s)
	if !ok {
		panic(fmt.Sprintf("internal error: slot %d is ready for nothing", s))
	}
	e := c.entries[it.ID]
	c.begin(e, c.slots[s])
	return e, true
}

func (c *core) begin(e *entry, slot *task.Slot) {
	c.set(e, running)
	c.hold(e)
	c.tokens.hold(slot.ID, 1)
	c.nextStart = c.run.Add(c.cfg.Pool.Delay)
	e.slot, e.attempt, e.since, e.begun, e.stage = slot, e.attempt+1, c.now, c.run, untouched
	timeout := c.cfg.Limit.Timeout
	if e.task.Timeout != 0 {
		timeout = e.task.Timeout
	}
	if timeout > 0 && !c.timeless && e.task.Protocol == task.NoProtocol {
		c.deadline.Push(e.item.ID, c.run.Add(timeout))
	}
	retry := 0
	if n := len(e.before); n > 0 && e.before[n-1].Outcome != task.Lost && !e.back {
		retry = e.failures - e.task.Failures
	}
	ev := c.event(task.Started, e.task.ID, e.task)
	ev.Slot, ev.Host, ev.Attempt, ev.Retries = slot.ID, slot.Host, e.attempt, retry
	c.stats.Apply(ev)
}

// hold adds a task to those that hold a slot.
func (c *core) hold(e *entry) {
	c.running++
	if e.next = c.holders; e.next != nil {
		e.next.prev = e
	}
	c.holders = e
}

// unhold removes a task from those that hold a slot.
func (c *core) unhold(e *entry) {
	c.running--
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		c.holders = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// holding is an iter.Seq of the tasks that hold a slot, in no order.
func (c *core) holding(yield func(*entry) bool) {
	for e := c.holders; e != nil && yield(e); e = e.next {
	}
}

// wake returns when the core must be called again even if nothing happens, on
// the machine's clock. The zero time is never.
func (c *core) wake() time.Time {
	if c.clock.stopped() {
		return time.Time{}
	}
	at, _ := c.deadline.Next()
	at = earlier(earlier(at, c.giveUpAt), earlier(c.unreadAt, c.lateAt))
	if !c.idleAt.IsZero() && c.phase == going {
		at = earlier(at, c.idleAt.Add(c.cfg.Feed.IdleExit))
	}
	if c.phase == going && !c.paused {
		next, _ := c.delayed.Next()
		at = earlier(at, next)
		if c.run.Before(c.nextStart) && c.policy.Ready() > 0 {
			at = earlier(at, c.nextStart)
		}
		if c.usage != nil && c.count[queued] > 0 {
			at = earlier(at, c.balanceAt)
		}
		at = earlier(at, c.explainer.wake())
	}
	return earlier(c.clock.real(at), c.untilWake())
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// seal reports whether every task has its outcome and no more will come. Once it
// does, the run admits no more.
func (c *core) seal() bool {
	ends := (c.readAll() || c.phase > going) && c.unreadAt.IsZero()
	c.sealed = c.sealed || ends && len(c.entries) == 0 && c.serving == 0 && uint64(c.stats.Admitted)+c.skipped == c.numbered.Load()
	return c.sealed
}
