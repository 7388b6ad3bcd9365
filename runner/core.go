package runner

import (
	"fmt"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// core is the run's state machine. It has no lock, no goroutine, no clock and
// does no I/O: it answers questions (may I read? what starts now? when do I
// wake? is all done?) and takes facts (admitted, finished, a command). Only the
// loop touches it.
type core struct {
	cfg Config

	// where each task is: in exactly one place until it is finished

	policy  sched.Policy
	topic   *sched.ByTopic // policy, where it is that
	limit   *sched.Limiter // nil without a limit per key
	delayed *sched.Delay
	entries map[uint64]*entry
	order   *sched.Reorder[struct{}] // nil without Keep
	spare   []*entry

	// the pool

	workers   int
	running   int
	nextStart time.Time // no start before it
	balancer  *balancer // of automatic topics; nil without
	explainAt time.Time // when a blocked input is worth a word
	explained time.Time // when it last was

	// how the run stands

	inputEnd bool
	draining bool
	stopping bool
	told     bool // to end: by a command, or since nobody reads the output any more
	paused   bool
	admitted uint64
	finished [task.Outcomes]uint64
	earlier  [task.Outcomes]uint64 // those of finished that an earlier run has met
	counted  *task.Result          // the latest that Config.Halt counts
	released uint64
	ending   Ending

	// what the loop has to do and tell

	events  []task.Event
	cancels []uint64 // running tasks to be ended
}

// state is where an unfinished task is.
type state uint8

const (
	queued  state = iota // in the policy
	parked               // in the limiter
	running              // on a worker
	delayed              // waiting for its next attempt
)

// entry is an unfinished task.
type entry struct {
	task      *task.Task
	item      sched.Item
	state     state
	attempt   int            // the running one, or the last
	before    []*task.Result // of the attempts that failed
	worker    int
	cancelled bool
}

func newCore(cfg Config) *core {
	c := &core{
		cfg: cfg, policy: cfg.Pool.Policy, workers: cfg.Pool.Workers,
		entries: map[uint64]*entry{}, delayed: sched.NewDelay(),
	}
	c.topic, _ = c.policy.(*sched.ByTopic)
	if c.topic != nil && cfg.Pool.Procs > 0 {
		c.balancer = &balancer{topic: c.topic, procs: cfg.Pool.Procs, use: map[uint64]*usage{}}
	}
	if _, keyed := c.policy.(*sched.Keyed); cfg.Pool.PerKey > 0 && !keyed {
		// keyed runs a key one at a time by itself, and a limit that gave the
		// turn of a task that waits for its retry to another would jam it.
		c.limit = sched.NewLimiter(cfg.Pool.PerKey)
	}
	if cfg.Order.Keep {
		c.order = sched.NewReorder[struct{}](1)
	}
	c.policy.Resize(c.workers)
	return c
}

func (c *core) emit(e task.Event) { c.events = append(c.events, e) }

// room is how many tasks more may be read.
func (c *core) room() int {
	if c.inputEnd || c.draining {
		return 0
	}
	n := c.cfg.Pool.Buffer - c.waiting()
	if c.order != nil {
		n = min(n, c.cfg.Order.Window-int(c.admitted-c.released))
	}
	return max(n, 0)
}

// waiting is how many tasks have been read and do not run.
func (c *core) waiting() int { return len(c.entries) - c.running }

// low says whether tasks should be read: they are read many at a time, since the
// reader has to be woken for it, but at once for a worker that has none.
func (c *core) low() bool {
	return c.room() > 0 && (c.waiting() <= c.cfg.Pool.Buffer/2 || c.running < c.workers)
}

// admit takes a task into the run.
func (c *core) admit(t *task.Task, now time.Time) {
	c.admitted++
	if t.ID != c.admitted {
		panic(fmt.Sprintf("internal error: task %d admitted as number %d", t.ID, c.admitted))
	}
	c.emit(task.Event{Kind: task.Admitted, At: now, ID: t.ID, Task: t})
	e := c.newEntry()
	*e = entry{task: t, item: sched.Item{ID: t.ID, Cost: max(t.Cost, 1)}}
	if t.Key != "" {
		e.item.Key = sched.Hash(t.Key)
	}
	c.entries[t.ID] = e
	switch {
	case t.Done != nil:
		c.earlier[t.Done.Outcome]++
		c.finish(e, t.Done, now)
		c.halt(now) // the share of the others is larger now
	case t.Err != nil:
		c.finish(e, &task.Result{Task: t, Outcome: task.StartFailed, Err: t.Err, Code: 126, Start: now, End: now}, now)
	case c.draining:
		c.notRun(e, now)
	case c.topic != nil && !c.topic.Accepts(e.item.Key):
		err := fmt.Errorf("no worker takes key %q: give it a topic, or add '*=N' to --topics", t.Key)
		c.finish(e, &task.Result{Task: t, Outcome: task.StartFailed, Err: err, Code: 126, Start: now, End: now}, now)
	default:
		c.enqueue(e)
	}
}

func (c *core) newEntry() *entry {
	if n := len(c.spare); n > 0 {
		e := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return e
	}
	return new(entry)
}

// enqueue gives a task that may run to the limiter and the policy.
func (c *core) enqueue(e *entry) {
	if c.limit != nil && !c.limit.Admit(e.item) {
		e.state = parked
		return
	}
	e.state = queued
	c.policy.Push(e.item)
}

// endInput says that no task comes any more.
func (c *core) endInput(now time.Time) {
	if !c.inputEnd {
		c.inputEnd = true
		c.emit(task.Event{Kind: task.InputEnd, At: now})
	}
}

// inputFailed says that the input broke: what came before still runs, and then
// the run has failed.
func (c *core) inputFailed(err error, now time.Time) {
	if c.ending.Err == nil {
		c.ending.Err = err
	}
	c.endInput(now)
}

// next is the attempt that starts now, if one does.
func (c *core) next(now time.Time) (task.Attempt, bool) {
	if c.draining || c.paused {
		return task.Attempt{}, false
	}
	if c.balancer != nil {
		c.balancer.run(now)
	}
	for id, ok := c.delayed.Due(now); ok; id, ok = c.delayed.Due(now) {
		c.enqueue(c.entries[id])
	}
	if now.Before(c.nextStart) {
		return task.Attempt{}, false
	}
	w := c.policy.Ready()
	if w == 0 {
		return task.Attempt{}, false
	}
	it, ok := c.policy.Pop(w)
	if !ok {
		panic(fmt.Sprintf("internal error: worker %d is ready for nothing", w))
	}
	return c.begin(c.entries[it.ID], w, now), true
}

func (c *core) begin(e *entry, worker int, now time.Time) task.Attempt {
	c.running++
	c.nextStart = now.Add(c.cfg.Pool.Delay)
	e.state, e.worker, e.attempt = running, worker, e.attempt+1
	c.emit(task.Event{Kind: task.Started, At: now, ID: e.task.ID, Task: e.task, Worker: worker, Attempt: e.attempt})
	return task.Attempt{Task: e.task, Number: e.attempt, Worker: worker}
}

// wake is when next or balance may have something without anything else
// happening; the zero time is never.
func (c *core) wake() time.Time {
	if c.draining || c.paused {
		return time.Time{}
	}
	at, _ := c.delayed.Next()
	if c.policy.Ready() > 0 {
		at = earlier(at, c.nextStart)
	}
	if c.balancer != nil && c.policy.Len() > 0 {
		at = earlier(at, c.balancer.next)
	}
	return earlier(at, c.explainAt)
}

// done says whether the run is over.
func (c *core) done() bool {
	return (c.inputEnd || c.draining) && len(c.entries) == 0
}

// ended takes the result of an attempt.
func (c *core) ended(r *task.Result, now time.Time) {
	e := c.entries[r.Task.ID]
	if e == nil || e.state != running {
		panic(fmt.Sprintf("internal error: a result for task %d, which does not run", r.Task.ID))
	}
	again := c.retries(e, r)
	if c.balancer != nil {
		c.balancer.saw(e.item.Key, r)
	}
	c.running--
	c.policy.Done(e.worker, e.item, again)
	if r.Fault != nil {
		c.abort(r.Fault, now)
	}
	if again {
		e.state = delayed
		e.before = append(e.before, r)
		wait := c.backoff(e.attempt)
		c.emit(task.Event{Kind: task.Retried, At: now, ID: r.Task.ID, Task: e.task, Result: r, Attempt: e.attempt, Wait: wait})
		c.unlimit(e)
		c.delayed.Push(r.Task.ID, now.Add(wait))
		return
	}
	e.worker = 0
	c.unlimit(e)
	c.finish(e, r, now)
}

// unlimit lets the next parked task of the key go.
func (c *core) unlimit(e *entry) {
	if c.limit == nil {
		return
	}
	if it, ok := c.limit.Done(e.item.Key); ok {
		c.entries[it.ID].state = queued
		c.policy.Push(it)
	}
}

// retries says whether an attempt is followed by another.
func (c *core) retries(e *entry, r *task.Result) bool {
	if !r.Outcome.Failed() || c.draining || e.cancelled || r.Fault != nil || e.attempt > c.cfg.Retry.Max {
		return false
	}
	if r.BadCommand && c.cfg.SameCommand {
		return false // which ends the run
	}
	return c.cfg.Retry.On == nil || c.cfg.Retry.On(r)
}

// backoff is how long to wait after the nth attempt: exponential with full
// jitter ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
func (c *core) backoff(n int) time.Duration {
	most := c.cfg.Retry.Delay
	for ; n > 1 && most < c.cfg.Retry.MaxDelay; n-- {
		most *= 2
	}
	return time.Duration(c.cfg.Retry.Jitter() * float64(min(most, c.cfg.Retry.MaxDelay)))
}

// finish gives a task its outcome and releases what may be.
func (c *core) finish(e *entry, r *task.Result, now time.Time) {
	id := e.task.ID
	ran := 0
	if e.state == running {
		ran = e.attempt
	}
	if r != e.task.Done {
		r.Before = e.before
	}
	delete(c.entries, id)
	c.finished[r.Outcome]++
	c.emit(task.Event{Kind: task.Finished, At: now, ID: id, Task: e.task, Result: r, Attempt: ran})
	*e = entry{}
	c.spare = append(c.spare, e)
	if c.order == nil {
		c.release(id, id, now)
	} else {
		c.order.Put(id, struct{}{})
		first := c.order.Base()
		for more := true; more; {
			_, more = c.order.Next()
		}
		if next := c.order.Base(); next > first {
			c.release(first, next-1, now)
		}
	}
	if r != r.Task.Done {
		c.judge(r, now)
	}
}

// release is one event for all, since they may be as many as the window is long.
func (c *core) release(first, last uint64, now time.Time) {
	c.released += last - first + 1
	c.emit(task.Event{Kind: task.Released, At: now, ID: first, Last: last})
}

// judge stops the run where a result says so.
func (c *core) judge(r *task.Result, now time.Time) {
	if r.BadCommand && c.cfg.SameCommand && c.ending.BadCommand == nil {
		c.ending.BadCommand = r
		c.drain(now, "")
	}
	if c.counts(r) {
		c.counted = r
		c.halt(now)
	}
}

// halt stops the run where enough results of the kind that counts are there.
func (c *core) halt(now time.Time) {
	if c.counted == nil || c.ending.Halted != nil || !c.enough() {
		return
	}
	c.ending.Halted = c.counted
	c.drain(now, "--halt")
	if c.cfg.Halt.When == Now {
		c.stop(now, "--halt")
	}
}

// counts says whether a result is one of those that Config.Halt counts.
func (c *core) counts(r *task.Result) bool {
	if c.cfg.Halt.When == Never || r.Outcome == task.NotRun || r.Outcome == task.Cancelled {
		return false
	}
	switch c.cfg.Halt.On {
	case OnFail:
		return r.Outcome.Failed()
	case OnSuccess:
		return r.Outcome == task.OK
	}
	return true
}

// enough says whether this run has met as many of them as Config.Halt says.
func (c *core) enough() bool {
	h := c.cfg.Halt
	var ok, failed, earlier uint64
	for o := range task.Outcomes {
		n := c.finished[o] - c.earlier[o]
		switch {
		case o == task.OK:
			ok = n
		case o.Failed():
			failed += n
		}
		earlier += c.earlier[o]
	}
	n := [...]uint64{OnFail: failed, OnSuccess: ok, OnDone: ok + failed}[h.On]
	if !h.Percent {
		return n >= uint64(h.N)
	}
	of := h.Tasks - min(earlier, h.Tasks) // of those that an earlier run has done not all may be read yet
	return of > 0 && n*100 >= uint64(h.N)*of
}

// notRun ends a task that no attempt will be made at any more.
func (c *core) notRun(e *entry, now time.Time) {
	c.finish(e, &task.Result{Task: e.task, Attempt: e.attempt, Outcome: task.NotRun, End: now}, now)
}

// balance checks that nothing was lost: every admitted task has one outcome.
func (c *core) balance() {
	var sum uint64
	for _, n := range c.finished {
		sum += n
	}
	if sum != c.admitted || c.released != c.admitted || len(c.entries) != 0 || c.running != 0 {
		panic(fmt.Sprintf("internal error: %d tasks admitted, %d finished, %d released, %d left, %d running",
			c.admitted, sum, c.released, len(c.entries), c.running))
	}
}
