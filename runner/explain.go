package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"crew/runner/task"
	"crew/sched"
)

const (
	// lookEvery is how often explain looks for a reason.
	lookEvery = time.Second
	// mostGroups limits the groups of waiting tasks in a snapshot.
	mostGroups = 100
	// mostListed limits the tasks in a list that names none.
	mostListed = 1000
)

// explainer measures how long slots were free although something is left to run.
type explainer struct {
	idle    bool           // that is so now
	since   time.Time      // the last look
	last    time.Time      // when idle was last set
	idleFor time.Duration  // how long idle was true since the last look
	told    *task.Blocking // the reason emitted last, while it holds
	full    bool           // the notice about tasks outside the read-ahead was given
}

// wake returns the time of the next look. The zero time is never.
func (x *explainer) wake() time.Time {
	if !x.idle && x.told == nil {
		return time.Time{}
	}
	return x.since.Add(lookEvery)
}

// explain emits the reason why nothing starts if slots were free at least half of
// the time since the last look. A task that starts now and then does not count as
// progress: it only makes room for a few others.
func (c *core) explain() {
	x := &c.explainer
	c.explainCrowd()
	if x.idle {
		x.idleFor += c.run.Sub(x.last)
	}
	left := !c.readAll() || c.waits() > 0
	idle := (c.running < c.capacity || c.capacity == 0) && left && c.phase == going && !c.paused && !c.clock.stopped()
	idle = idle || c.waitsForWorkers()
	if idle && !x.idle && x.told == nil && x.idleFor == 0 {
		x.since = c.run
	}
	x.idle, x.last = idle, c.run
	passed := c.run.Sub(x.since)
	if passed < lookEvery {
		return
	}
	var b *task.Blocking
	if idle && 2*x.idleFor >= passed {
		b = c.blocking()
	}
	if b != nil && (x.told == nil || *b != *x.told) || b == nil && x.told != nil {
		c.emit(task.Event{Kind: task.Blocked, Blocking: b})
	}
	x.told, x.since, x.idleFor = b, c.run, 0
}

// explainCrowd gives a notice, once, when so many tasks wait outside the read-ahead that
// nothing more is read.
func (c *core) explainCrowd() {
	x := &c.explainer
	if !x.full && c.crowded() && c.phase == going && !c.readAll() && !c.cfg.Feed.Open {
		x.full = true
		c.emit(task.Event{Kind: task.Notice, Text: fmt.Sprintf(
			"%d tasks wait for a retry or for --per-key, as many as there is room for: nothing more is read until some have run", c.aside())})
	}
}

// blocking returns why nothing starts. It is nil if something can start or
// nothing is left.
func (c *core) blocking() *task.Blocking {
	all := c.waits()
	b := &task.Blocking{Tasks: all}
	switch {
	case c.waitsForWorkers():
		b.By, b.Tasks = task.ByWorkers, c.serving
	case c.phase > going:
		b.By = task.ByEnd
	case c.paused || c.clock.stopped():
		b.By = task.ByPause
	case len(c.events) >= outboxFull:
		b.By = task.ByReader
	case all == 0 && c.readAll():
		return nil
	case all == 0 && c.order != nil && c.room() == 0:
		b.By, b.ID = task.ByOrder, c.order.Base()
	case all == 0:
		b.By = task.ByInput
	case c.tokens.short:
		b.By = task.ByTokens
	case c.running >= c.capacity:
		b.By, b.None = task.BySlots, c.capacity == 0
		b.Input = b.None && c.full()
	case c.policy.Ready() == 0:
		b = c.longest()
		b.Input = c.full()
	case c.run.Before(c.nextStart):
		b.By, b.Until = task.ByDelay, c.clock.real(c.nextStart)
	default:
		return nil
	}
	return b
}

// waitsForWorkers reports whether only the end of persistent workers is missing.
func (c *core) waitsForWorkers() bool {
	return c.serving > 0 && len(c.entries) == 0 && (c.readAll() || c.phase > going)
}

// full reports whether nothing more is read because the read-ahead is full.
func (c *core) full() bool {
	return !c.readAll() && !c.cfg.Feed.Open && (2*c.count[queued] >= c.buffer() || c.room() == 0)
}

// longest describes the longest queue of tasks that wait beside a free slot.
func (c *core) longest() *task.Blocking {
	b := &task.Blocking{By: task.ByRetry, Tasks: c.count[delayed]}
	if next, ok := c.delayed.Next(); ok {
		b.Until = c.clock.real(next)
	}
	if q := sched.Longest(c.policy.Blocks); q.N >= b.Tasks && q.N > 0 {
		*b = c.blockOf(q)
	}
	if n := c.count[held]; n > b.Tasks {
		for id := range c.after {
			if n := c.waitFor(id); b.By != task.ByAfter || n > b.Tasks || n == b.Tasks && id < b.ID {
				*b = task.Blocking{By: task.ByAfter, Tasks: n, ID: id}
			}
		}
	}
	if c.limit != nil {
		if q := sched.Longest(c.limit.Blocks); q.N > b.Tasks {
			*b = task.Blocking{By: task.ByLimit, Tasks: q.N, Key: c.entries[q.ID].task.Key, Limit: c.cfg.Pool.PerKey}
		}
	}
	return b
}

// waiting groups the waiting tasks by what they wait for.
func (c *core) waiting() []task.Blocking {
	var list []task.Blocking // the largest groups, sorted
	add := func(b task.Blocking) {
		i, _ := slices.BinarySearchFunc(list, b, func(x, y task.Blocking) int {
			return cmp.Or(y.Tasks-x.Tasks, int(x.By)-int(y.By), cmp.Compare(x.Key, y.Key), cmp.Compare(x.ID, y.ID))
		})
		if i < mostGroups {
			list = slices.Insert(list[:min(len(list), mostGroups-1)], i, b)
		}
	}
	for q := range c.queues {
		if len(list) < mostGroups || q.N >= list[mostGroups-1].Tasks {
			add(c.blockOf(q))
		}
	}
	if c.limit != nil {
		for q := range c.limit.Blocks {
			add(task.Blocking{By: task.ByLimit, Tasks: q.N, Key: c.entries[q.ID].task.Key, Limit: c.cfg.Pool.PerKey})
		}
	}
	for id := range c.after {
		if n := c.waitFor(id); n > 0 {
			add(task.Blocking{By: task.ByAfter, Tasks: n, ID: id})
		}
	}
	if next, ok := c.delayed.Next(); ok {
		add(task.Blocking{By: task.ByRetry, Tasks: c.count[delayed], Until: c.clock.real(next)})
	}
	if n := c.stats.Finished() - c.stats.Released; n > 0 {
		add(task.Blocking{By: task.ByOrder, Tasks: int(n), ID: c.order.Base()})
	}
	return list
}

// queues is an iter.Seq of the queues of the policy that hold tasks.
func (c *core) queues(yield func(sched.Block) bool) {
	if c.count[queued] > 0 { // else what it holds has been left there; see enter
		c.policy.Blocks(yield)
	}
}

// blockOf describes a queue of the policy.
func (c *core) blockOf(q sched.Block) task.Blocking {
	b := task.Blocking{By: task.BySlots, Tasks: q.N, Slot: q.Slot}
	if q.OneKey {
		b.Key = c.entries[q.ID].task.Key
	}
	switch {
	case b.Key != "":
		b.By, b.None = task.ByKey, q.Label
	case q.Slot > 0:
		b.By = task.BySlot
	case c.tokens.short:
		b.By = task.ByTokens
	default:
		b.None = c.capacity == 0
	}
	return b
}

// wheres says what is known of some tasks or, without ids, of the first ones that run,
// wait or have failed lately.
func (c *core) wheres(ids []uint64) (list []task.Where) {
	if len(ids) == 0 {
		ids = slices.AppendSeq(slices.Collect(maps.Keys(c.entries)), maps.Keys(c.memory.tasks))
		slices.Sort(ids)
		ids = ids[:min(len(ids), mostListed)]
	}
	firsts := map[uint64]*entry{} // by key, under a policy that runs its tasks one at a time
	if c.policy.Serial() {
		for id, e := range c.entries {
			if first := firsts[e.item.Key]; e.state != held && (first == nil || id < first.item.ID) {
				firsts[e.item.Key] = e
			}
		}
	}
	for _, id := range ids {
		list = append(list, c.where(id, firsts))
	}
	return list
}

func (c *core) where(id uint64, firsts map[uint64]*entry) task.Where {
	w := task.Where{ID: id, Known: c.exists(id)}
	if e := c.entries[id]; e != nil {
		w.Task, w.Attempt = e.task, e.attempt
		if e.slot != nil {
			w.Running = e.running()
		} else {
			w.Blocking = c.reason(e, firsts[e.item.Key])
		}
		return w
	}
	if was, ok := c.memory.tasks[id]; ok {
		w.Task, w.Outcome, w.Attempt = was.task, was.outcome, was.attempt
	}
	if c.order != nil && w.Known && id >= c.order.Base() {
		w.Held = c.order.Base()
	}
	return w
}

// reason returns what a waiting task waits for. first is the first task of its key if
// these run one at a time.
func (c *core) reason(e, first *entry) *task.Blocking {
	b := &task.Blocking{By: task.BySlots, Tasks: 1, None: c.capacity == 0}
	switch {
	case e.state == decided:
		return nil
	case e.state == held:
		b.By = task.ByAfter
		for _, id := range e.task.After {
			if b.ID == 0 && c.entries[id] != nil {
				b.ID = id
			}
		}
	case c.paused || c.clock.stopped():
		b.By = task.ByPause
	case e.state == delayed:
		b.By, b.Until = task.ByRetry, c.clock.real(e.due)
	case e.state == parked:
		b.By, b.Key, b.Limit = task.ByLimit, e.task.Key, c.cfg.Pool.PerKey
	default:
		if first != nil && first != e {
			b.By, b.Key, b.ID = task.ByKey, e.task.Key, first.item.ID
			if first.slot != nil {
				b.Slot = first.slot.ID
			}
		} else if c.run.Before(c.nextStart) {
			b.By, b.Until = task.ByDelay, c.clock.real(c.nextStart)
		} else if c.tokens.short {
			b.By = task.ByTokens
		}
	}
	return b
}
