package runner

import (
	"fmt"
	"sync/atomic"
	"time"

	"crew/runner/task"
	"crew/sched"
)

const (
	// outboxFull is how many events may wait for the sinks before nothing more
	// starts: a reader that has stopped slows the run down.
	outboxFull = 4096
	// fewTasks are read ahead however many bytes they have.
	fewTasks = 64
	// asideTasks and asideBytes bound what waits outside the read-ahead: for a
	// retry, or for a limit.
	asideTasks = 32 << 10
	asideBytes = 16 << 20
	// balanceEvery is how often automatic topics are shared out anew.
	balanceEvery = time.Second
	// settle is what a run that was told to end allows beyond the grace of its
	// tasks: for the kernel to end them, and for a reader to take what is left. A
	// kill that did not help is repeated as often.
	settle = time.Second
)

// core is the run's state machine. It has no lock, no goroutine and no clock,
// and does no I/O: tick says what time it is, and then it answers questions (may
// I read? what starts now? when do I wake? is all done?) and takes facts
// (admitted, ended, a command). Only Run.do calls it.
type core struct {
	cfg Config

	// time

	now   time.Time // by the machine's clock, for events
	run   time.Time // by the run's clock, which every deadline goes by
	clock clock

	// unfinished tasks, each in one place

	entries  map[uint64]*entry
	spare    []*entry
	count    [states]int // tasks by state
	bytes    [states]int // their sizes
	policy   sched.Policy
	limit    *sched.Limiter // nil without a limit per key
	delayed  *sched.Delay
	order    *sched.Reorder[struct{}] // of results; nil without Keep
	deadline *sched.Delay             // of running tasks: when the next step of ending them is due

	// the pool

	slots     map[int]task.Slot
	capacity  int // of all slots
	running   int // tasks that hold a slot
	nextStart time.Time
	usage     *usages // of automatic topics; nil without
	balanceAt time.Time
	explainer explainer

	// how the run stands

	numbered atomic.Uint64 // the last number that was given to a task
	inputEnd bool
	paused   bool
	phase    phase
	sealed   bool      // every task has its outcome, and no other is taken in
	giveUpAt time.Time // when a run that was told to end waits no more; zero is never
	stats    task.Stats
	counted  *task.Result // the latest that Config.Halt counts
	ending   Ending

	// what is to be done and told

	events []task.Event
	acts   []act
}

// phase is how far the run is on its way to the end. It only rises.
type phase uint8

const (
	going    phase = iota
	draining       // nothing more starts; what runs may finish
	stopping       // what runs is being ended
	killing        // what runs is killed
)

// state is where an unfinished task is.
type state uint8

const (
	nowhere state = iota // not admitted, or finished
	queued               // in the policy
	parked               // in the limiter
	delayed              // waiting for its next attempt
	running              // in a slot
	decided              // its attempt has ended and is being recorded; a task that ran still holds its slot
	states
)

// entry is an unfinished task.
type entry struct {
	task  *task.Task
	item  sched.Item
	size  int
	state state
	slot  task.Slot // while it is held; the zero Slot otherwise

	attempt   int            // the number of the running one, or of the last
	since     time.Time      // when that began
	failures  int            // failed attempts, each of which used up a retry
	before    []*task.Result // those of this run
	cancelled bool
	handle    *handle // of the run: what ends the attempt
	stage     stage
	result    *task.Result // under decided
	again     bool         // under decided: another attempt follows
}

// stage is how far the ending of an attempt is.
type stage uint8

const (
	untouched  stage = iota
	terminated       // asked to end
	killed
)

// act is something to be done to a running attempt.
type act struct {
	handle *handle
	task   uint64
	cause  error // why its context ends
	kill   bool
}

func newCore(cfg Config) *core {
	c := &core{
		cfg: cfg, policy: cfg.Pool.Policy, slots: map[int]task.Slot{},
		entries: map[uint64]*entry{}, delayed: sched.NewDelay(), deadline: sched.NewDelay(),
	}
	if cfg.Pool.Procs > 0 {
		c.usage = newUsages(cfg.Pool.Procs)
	}
	if cfg.Pool.PerKey > 0 && !c.policy.Serial() {
		// A limit that gave the turn of a task that waits for its retry to
		// another would jam a policy that keeps a key in order.
		c.limit = sched.NewLimiter(cfg.Pool.PerKey)
	}
	if cfg.Order.Keep {
		c.order = sched.NewReorder[struct{}](1)
	}
	return c
}

// tick says what time it is.
func (c *core) tick(now time.Time) { c.now, c.run = now, c.clock.at(now) }

func (c *core) emit(e task.Event) {
	e.At = c.now
	c.stats.Apply(&e)
	c.events = append(c.events, e)
}

// set moves a task from where it is to another state.
func (c *core) set(e *entry, s state) {
	c.count[e.state]--
	c.bytes[e.state] -= e.size
	e.state = s
	c.count[s]++
	c.bytes[s] += e.size
}

// room is how many tasks more may be read.
func (c *core) room() int {
	if c.inputEnd || c.phase > going || c.sealed || c.crowded() || len(c.events) >= outboxFull {
		return 0
	}
	n := c.cfg.Pool.Buffer - c.count[queued]
	if most := c.cfg.Pool.Bytes; most > 0 && c.bytes[queued] >= most {
		n = min(n, fewTasks-c.count[queued])
	}
	if c.order != nil {
		n = min(n, c.cfg.Order.Window-int(c.stats.Admitted-c.stats.Released))
	}
	return max(n, 0)
}

// crowded says whether as many tasks wait outside the read-ahead as may.
func (c *core) crowded() bool {
	return c.count[parked]+c.count[delayed] >= asideTasks || c.bytes[parked]+c.bytes[delayed] >= asideBytes
}

// low says whether the reader should be woken: it reads many tasks each time,
// but goes on at once for a slot that is free.
func (c *core) low() bool {
	return c.room() > 0 && (c.count[queued] <= c.cfg.Pool.Buffer/2 || c.running < c.capacity)
}

// number is the number of a new task, which must then be admitted. Tasks may be
// admitted in another order. It is the only method that needs no door.
func (c *core) number() uint64 { return c.numbered.Add(1) }

// admit takes a task into the run. Where it cannot be run at all admit returns
// its result, which is to be recorded.
func (c *core) admit(t *task.Task) *task.Result {
	if c.sealed {
		return nil
	}
	if t.ID == 0 || t.ID > c.numbered.Load() || c.entries[t.ID] != nil {
		panic(fmt.Sprintf("internal error: task %d of %d admitted", t.ID, c.numbered.Load()))
	}
	c.emit(task.Event{Kind: task.Admitted, ID: t.ID, Task: t})
	e := c.newEntry()
	*e = entry{
		task: t, item: sched.Item{ID: t.ID, Cost: max(t.Cost, 1)}, size: t.Size(),
		attempt: t.Attempts, failures: t.Failures,
	}
	if t.Key != "" {
		e.item.Key = sched.Hash(t.Key)
	}
	c.entries[t.ID] = e
	switch {
	case t.Done != nil:
		c.finish(e, t.Done)
		c.halt() // the share of the others is larger now
	case t.Err != nil:
		return c.refuse(e, t.Err)
	case c.phase > going:
		c.notRun(e)
	case !c.enqueue(e):
		return c.refuse(e, fmt.Errorf("no worker takes key %q: give it a topic, or add '*=N' to --topics", t.Key))
	}
	return nil
}

func (c *core) newEntry() *entry {
	if n := len(c.spare); n > 0 {
		e := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return e
	}
	return new(entry)
}

// refuse decides that a task cannot be run.
func (c *core) refuse(e *entry, err error) *task.Result {
	c.set(e, decided)
	e.result = &task.Result{
		Task: e.task, Outcome: task.StartFailed, Err: err, Code: 126, Start: c.now, End: c.now,
	}
	return e.result
}

// enqueue gives a task that may run to the limiter and the policy. It is false
// where the policy does not take it.
func (c *core) enqueue(e *entry) bool {
	if c.limit != nil && !c.limit.Admit(e.item) {
		c.set(e, parked)
		return true
	}
	if !c.policy.Push(e.item) {
		return false
	}
	c.set(e, queued)
	return true
}

// endInput says that no task comes any more.
func (c *core) endInput() {
	if !c.inputEnd {
		c.inputEnd = true
		c.emit(task.Event{Kind: task.InputEnd})
	}
}

// inputFailed says that the input broke: what came before still runs, and then
// the run has failed.
func (c *core) inputFailed(err error) {
	c.broke(Broken, err)
	c.endInput()
}

// due does what the time asks for.
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
	if c.phase > going || c.paused {
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

// next is the task that starts an attempt now, if one does.
func (c *core) next() (*entry, bool) {
	if c.phase > going || c.paused || c.clock.stopped() || len(c.events) >= outboxFull || c.run.Before(c.nextStart) {
		return nil, false
	}
	s := c.policy.Ready()
	if s == 0 {
		return nil, false
	}
	it, ok := c.policy.Pop(s)
	if !ok {
		panic(fmt.Sprintf("internal error: slot %d is ready for nothing", s))
	}
	e := c.entries[it.ID]
	c.begin(e, c.slots[s])
	return e, true
}

func (c *core) begin(e *entry, slot task.Slot) {
	c.set(e, running)
	c.running++
	c.nextStart = c.run.Add(c.cfg.Pool.Delay)
	e.slot, e.attempt, e.since, e.stage = slot, e.attempt+1, c.now, untouched
	timeout := c.cfg.Limit.Timeout
	if e.task.Timeout != 0 {
		timeout = e.task.Timeout
	}
	if timeout > 0 {
		c.deadline.Push(e.item.ID, c.run.Add(timeout))
	}
	c.emit(task.Event{
		Kind: task.Started, ID: e.task.ID, Task: e.task, Slot: slot.ID, Attempt: e.attempt, Retries: len(e.before),
	})
}

// wake is when time alone may ask for something, by the machine's clock; the
// zero time is never.
func (c *core) wake() time.Time {
	if c.clock.stopped() {
		return time.Time{}
	}
	at, _ := c.deadline.Next()
	at = earlier(at, c.giveUpAt)
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
	return c.clock.real(at)
}

// earlier is the earlier of two times, of which a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// seal says whether every task has its outcome and none comes any more. From
// then on none is taken in.
func (c *core) seal() bool {
	ends := c.inputEnd || c.phase > going
	c.sealed = c.sealed || ends && len(c.entries) == 0 && c.stats.Admitted == int64(c.numbered.Load())
	return c.sealed
}

// awaited is an unfinished task; nil where the run has given it up.
func (c *core) awaited(id uint64) *entry {
	e := c.entries[id]
	if e == nil && c.ending.Abandoned == 0 {
		panic(fmt.Sprintf("internal error: a result for task %d, which does not run", id))
	}
	return e
}

// decide takes the result of an attempt and says whether that finishes its task.
// The task holds its slot until recorded.
func (c *core) decide(e *entry, r *task.Result) (final bool) {
	if e.state != running {
		panic(fmt.Sprintf("internal error: a result for task %d, which does not run", e.item.ID))
	}
	if c.usage != nil {
		c.usage.saw(e.item.Key, r)
	}
	c.deadline.Remove(e.item.ID)
	e.again = c.retries(e, r)
	if !e.again {
		r.Before = e.before
	}
	e.result = r
	c.set(e, decided)
	if r.Fault != nil {
		c.abort(r.Fault)
	}
	return !e.again
}

// recorded says that what was decided about a task is on record.
func (c *core) recorded(e *entry) {
	id, r := e.item.ID, e.result
	if e.state != decided {
		panic(fmt.Sprintf("internal error: task %d was recorded undecided", id))
	}
	if !e.again {
		c.finish(e, r)
		return
	}
	e.before = append(e.before, r)
	wait := c.backoff(e.failures)
	e.failures++
	c.emit(task.Event{
		Kind: task.Retried, ID: id, Task: e.task, Result: r, Attempt: e.attempt, Retries: len(e.before) - 1, Wait: wait,
	})
	c.vacate(e)
	c.set(e, delayed)
	c.delayed.Push(id, c.run.Add(wait))
	switch {
	case e.cancelled:
		c.cancel(id)
	case c.phase > going:
		c.withdraw(e)
		c.notRun(e)
	}
}

// vacate gives the task's slot to others.
func (c *core) vacate(e *entry) {
	if e.slot.ID == 0 {
		return
	}
	c.running--
	c.policy.Done(e.slot.ID, e.item, e.again)
	e.slot = task.Slot{}
	c.unlimit(e)
}

// unlimit lets the next parked task of the key go.
func (c *core) unlimit(e *entry) {
	if c.limit == nil {
		return
	}
	if it, ok := c.limit.Done(e.item.Key); ok {
		c.policy.Push(it)
		c.set(c.entries[it.ID], queued)
	}
}

// retries says whether an attempt is followed by another.
func (c *core) retries(e *entry, r *task.Result) bool {
	if !r.Outcome.Failed() || c.phase > going || e.cancelled || r.Fault != nil || e.failures >= c.cfg.Retry.Max {
		return false
	}
	if r.BadCommand && c.cfg.SameCommand {
		return false // which ends the run
	}
	return c.cfg.Retry.On == nil || c.cfg.Retry.On(r)
}

// backoff is how long to wait after a failure that n others went before:
// exponential with full jitter ("Exponential Backoff And Jitter", AWS
// Architecture Blog, 2015).
func (c *core) backoff(n int) time.Duration {
	most := c.cfg.Retry.Delay
	for ; n > 0 && most < c.cfg.Retry.MaxDelay; n-- {
		most *= 2
	}
	return time.Duration(c.cfg.Retry.Jitter() * float64(min(most, c.cfg.Retry.MaxDelay)))
}

// finish gives a task its outcome and releases what may be.
func (c *core) finish(e *entry, r *task.Result) {
	id, ran := e.task.ID, 0
	if e.slot.ID != 0 {
		ran = e.attempt
		e.again = false
		c.vacate(e)
	}
	c.set(e, nowhere)
	delete(c.entries, id)
	c.emit(task.Event{Kind: task.Finished, ID: id, Task: e.task, Result: r, Attempt: ran})
	*e = entry{}
	c.spare = append(c.spare, e)
	c.release(id)
	if r != r.Task.Done {
		c.judge(r)
	}
}

// release says which results may be shown now that a task has finished: in one
// event, since they may be as many as the window is long.
func (c *core) release(id uint64) {
	if c.order == nil {
		c.emit(task.Event{Kind: task.Released, ID: id, Last: id})
		return
	}
	c.order.Put(id, struct{}{})
	first := c.order.Base()
	for more := true; more; {
		_, more = c.order.Next()
	}
	if next := c.order.Base(); next > first {
		c.emit(task.Event{Kind: task.Released, ID: first, Last: next - 1})
	}
}

// balance checks that nothing was lost: every admitted task has one outcome.
func (c *core) balance() {
	s := &c.stats
	if s.Finished() != s.Admitted || s.Released != s.Admitted || len(c.entries) != 0 || c.running != 0 {
		panic(fmt.Sprintf("internal error: %d tasks admitted, %d finished, %d released, %d left, %d running",
			s.Admitted, s.Finished(), s.Released, len(c.entries), c.running))
	}
}
