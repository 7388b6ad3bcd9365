package core

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
	halted  bool           // the notice about the present pause by Config.Halt was given
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
func (c *Core) explain() {
	x := &c.explainer
	c.explainCrowd()
	c.explainHalt()
	if x.idle {
		x.idleFor += c.run.Sub(x.last)
	}
	left := !c.input.over() || c.queue.waits() > 0
	idle := (c.free() > 0 || c.pool.capacity == 0) && left && c.end.phase == going && !c.queue.paused && !c.time.Stopped()
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
	if told := x.told; b != nil && told != nil {
		now := *b
		now.Figure = told.Figure // changes all the time
		if now == *told {
			b = told
		}
	}
	if b != x.told {
		c.output.emit(task.Event{Kind: task.Blocked, Blocking: b})
	}
	x.told, x.since, x.idleFor = b, c.run, 0
}

// explainCrowd gives a notice, once, when so many tasks wait outside the read-ahead that
// nothing more is read. It is no news that most wait for others of their key.
func (c *Core) explainCrowd() {
	x := &c.explainer
	if !x.full && c.crowded() && c.end.phase == going && !c.input.over() && !c.cfg.Feed.Open {
		n, _ := c.queue.aside()
		if x.full = true; 2*c.queue.count[following] > n {
			return
		}
		c.output.notice(fmt.Sprintf(
			"%d tasks wait for a retry, a limit or a release, as many as there is room for: nothing more is read until some have run", n))
	}
}

// explainHalt gives a notice, once, when Config.Halt has paused the run and something is
// left to run.
func (c *Core) explainHalt() {
	x := &c.explainer
	left := c.end.phase == going && (!c.input.over() || c.queue.waits() > 0)
	switch {
	case !c.queue.halted:
		x.halted = false
	case left && !x.halted:
		x.halted = true
		b := task.Blocking{}
		c.byPause(&b)
		c.output.notice(b.Text(c.now))
	}
}

// byPause says that the run is paused.
func (c *Core) byPause(b *task.Blocking) {
	b.By = task.ByPause
	if c.queue.halted {
		b.Halt = c.cfg.Halt.String()
	}
}

// blocking returns why nothing starts. It is nil if something can start or
// nothing is left.
func (c *Core) blocking() *task.Blocking {
	all := c.queue.waits()
	b := &task.Blocking{Tasks: all}
	switch {
	case c.waitsForWorkers():
		b.By, b.Tasks = task.ByWorkers, c.pool.streams.serving
	case c.end.phase > going:
		b.By = task.ByEnd
	case c.queue.paused || c.time.Stopped():
		c.byPause(b)
	case c.output.full():
		b.By = task.ByReader
	case all == 0 && c.input.over():
		return nil
	case all == 0 && c.output.order != nil && c.room() == 0:
		b.By, b.ID = task.ByOrder, c.output.order.Base()
	case all == 0:
		b.By = task.ByInput
	case c.waitsForAll(b):
		if b.By == task.ByPlaces { // not the one that they are kept for, nor those that were parked
			b.Tasks = c.queue.count[queued]
		}
	case c.free() <= 0:
		b.By, b.None = task.BySlots, c.pool.capacity == 0
		b.Input = b.None && c.full()
	case c.queue.ready.Ready() == 0:
		list := c.waiting()
		b = &list[slices.IndexFunc(list, func(b task.Blocking) bool { return b.By != task.ByOrder })]
		b.Input = c.full()
	default:
		return nil
	}
	return b
}

// waitsForAll says what all tasks wait for that could start else, and reports whether they wait.
func (c *Core) waitsForAll(b *task.Blocking) bool {
	q := &c.queue
	switch q.wait {
	case sched.ForDelay:
		b.By, b.Until = task.ByDelay, c.time.Real(q.again)
	case sched.ForRate:
		b.By, b.Until = task.ByRate, c.time.Real(q.again)
	case sched.ForToken:
		b.By = task.ByTokens
	case sched.ForMachine:
		if c.pool.machine.by == "" { // something may start in a moment
			return false
		}
		c.byMachine(b)
	case sched.ForPlaces:
		b.By, b.ID = task.ByPlaces, q.ready.Wide()
		b.Limit = q.ready.Width(c.entries[b.ID].item.Claim)
	default:
		return false
	}
	return true
}

// waitsFor says what a parked task waits for.
func (c *Core) waitsFor(b *task.Blocking, e *entry, wait sched.Wait) {
	switch terms := e.task.Terms(); wait {
	case sched.ForSlot: // it has what it claims, and would be next
		c.waitsForAll(b)
	case sched.ForKey:
		b.By, b.Key, b.Limit = task.ByLimit, task.Bytes(e.task.Key), c.cfg.Queue.PerKey
	case sched.ForKeyRate:
		b.By, b.Key = task.ByKeyRate, task.Bytes(e.task.Key)
	case sched.ForUnits:
		b.By, b.Needs = task.ByNeeds, task.NeedsText(terms.Needs)
	case sched.ForStock:
		b.By, b.Needs = task.ByOffers, task.NeedsText(c.queue.caps.offered(terms.Needs))
	default:
		b.By, b.Limit = task.ByPlaces, c.queue.ready.Width(e.item.Claim)
	}
}

// waitsForWorkers reports whether only the end of persistent workers is missing.
func (c *Core) waitsForWorkers() bool {
	return c.pool.streams.serving > 0 && len(c.entries) == 0 && (c.input.over() || c.end.phase > going)
}

// full reports whether nothing more is read because the read-ahead is full.
func (c *Core) full() bool {
	return !c.input.over() && !c.cfg.Feed.Open && (2*c.queue.count[queued] >= c.buffer() || c.room() == 0)
}

// waiting groups the waiting tasks by what they wait for.
func (c *Core) waiting() []task.Blocking {
	var list []task.Blocking // the largest groups, sorted
	add := func(b task.Blocking) {
		i, _ := slices.BinarySearchFunc(list, b, func(x, y task.Blocking) int {
			return cmp.Or(y.Tasks-x.Tasks, cmp.Compare(x.By, y.By), cmp.Compare(x.Key, y.Key), cmp.Compare(x.ID, y.ID), x.Slot-y.Slot)
		})
		if i < mostGroups {
			list = slices.Insert(list[:min(len(list), mostGroups-1)], i, b)
		}
	}
	ahead := c.pool.ahead
	for q := range c.queue.ready.Blocks {
		if c.end.phase > going { // what they hold has ended
			break
		}
		if len(list) < mostGroups || q.N >= list[mostGroups-1].Tasks {
			b := c.blockOf(q)
			if b.By == task.BySlots {
				b.Tasks, ahead = b.Tasks+ahead, 0
			}
			add(b)
		}
	}
	if ahead > 0 {
		add(task.Blocking{By: task.BySlots, Tasks: ahead})
	}
	c.addFollowing(add)
	if n := c.queue.count[held]; n > 0 {
		add(task.Blocking{By: task.ByHold, Tasks: n})
	}
	if next, ok := c.queue.later.Next(); ok {
		add(task.Blocking{By: task.ByTime, Tasks: c.queue.count[timed], Until: next})
	}
	if n := c.queue.count[checking]; n > 0 {
		add(task.Blocking{By: task.ByCheck, Tasks: n})
	}
	if next, ok := c.queue.delayed.Next(); ok {
		add(task.Blocking{By: task.ByRetry, Tasks: c.queue.count[delayed], Until: c.time.Real(next)})
	}
	if n := c.output.stats.Finished() - c.output.stats.Released; n > 0 {
		add(task.Blocking{By: task.ByOrder, Tasks: int(n), ID: c.output.order.Base()})
	}
	return list
}

// addFollowing adds groups of tasks that wait for those that they come after.
func (c *Core) addFollowing(add func(task.Blocking)) {
	keys := map[string]*task.Blocking{}
	for id := range c.queue.after {
		n := 0
		for _, e := range c.queue.waiting(id) {
			if e.behind != id {
				n++
				continue
			}
			b := keys[e.task.Key]
			if b == nil {
				b = &task.Blocking{By: task.ByKey, Key: task.Bytes(e.task.Key), ID: id}
				keys[e.task.Key] = b
			}
			b.Tasks, b.ID = b.Tasks+1, min(b.ID, id)
		}
		if n > 0 {
			add(task.Blocking{By: task.ByAfter, Tasks: n, ID: id})
		}
	}
	for _, b := range keys {
		c.name(b)
		add(*b)
	}
}

// name completes what is said of tasks that wait for another one of their key.
func (c *Core) name(b *task.Blocking) {
	if first := c.entries[b.ID]; first.slot != nil {
		b.Slot = first.slot.ID
	}
}

// blockOf describes a queue of the policy.
func (c *Core) blockOf(q sched.Block) task.Blocking {
	b := task.Blocking{By: task.BySlots, Tasks: q.N, Slot: q.Slot}
	if q.OneKey {
		b.Key = task.Bytes(c.entries[q.ID].task.Key)
	}
	switch {
	case q.Wait != sched.ForSlot:
		c.waitsFor(&b, c.entries[q.ID], q.Wait)
	case b.Key != "":
		b.By, b.None = task.ByKey, q.Label
	case q.Slot > 0:
		b.By = task.BySlot
	case c.waitsForAll(&b):
	default:
		b.None = c.pool.capacity == 0
	}
	return b
}

// wheres says what is known of the tasks that a command names or, without IDs, of the first
// ones that run, wait or have failed lately.
func (c *Core) wheres(cmd task.Command) (list []task.Where) {
	ids := cmd.IDs
	if len(ids) == 0 {
		for id, e := range c.entries {
			if cmd.Only == 0 || (cmd.Only == task.OnlyWaiting) == (e.state.waits() || e.ahead) {
				ids = append(ids, id)
			}
		}
		if cmd.Only == 0 {
			ids = slices.AppendSeq(ids, maps.Keys(c.queue.memory.tasks))
		}
		slices.Sort(ids)
		ids = ids[:min(len(ids), cmp.Or(cmd.N, mostListed))]
	}
	firsts := map[uint64]*entry{} // by key, under a policy that runs its tasks one at a time
	if c.queue.ready.Serial() {
		for id, e := range c.entries {
			if first := firsts[e.item.Key]; e.state != following && e.state != held && e.state != timed && (first == nil || id < first.item.ID) {
				firsts[e.item.Key] = e
			}
		}
	}
	for _, id := range ids {
		list = append(list, c.where(id, firsts))
	}
	return list
}

func (c *Core) where(id uint64, firsts map[uint64]*entry) task.Where {
	w := task.Where{ID: id, Known: c.input.exists(id)}
	if e := c.entries[id]; e != nil {
		w.Task, w.Attempt = e.task, e.number
		if e.slot != nil && !e.ahead {
			w.Running = e.running()
		} else {
			w.Blocking = c.reason(e, firsts[e.item.Key])
		}
		return w
	}
	if was, ok := c.queue.memory.tasks[id]; ok {
		w.Task, w.Outcome, w.Attempt = was.task, was.outcome, was.attempt
	}
	if c.output.order != nil && w.Known && id >= c.output.order.Base() {
		w.Held = c.output.order.Base()
	}
	return w
}

// reason returns what a waiting task waits for. first is the first task of its key if
// these run one at a time.
func (c *Core) reason(e, first *entry) *task.Blocking {
	b := &task.Blocking{By: task.BySlots, Tasks: 1, None: c.pool.capacity == 0}
	switch {
	case e.state == decided:
		return nil
	case e.ahead:
		b.By, b.Slot = task.BySlot, e.slot.ID
	case e.state == checking:
		b.By, b.None = task.ByCheck, false
	case e.state == held:
		b.By, b.None = task.ByHold, false
	case e.state == timed:
		b.By, b.None, b.Until = task.ByTime, false, e.task.Asked.At
	case e.state == following:
		b.By = task.ByAfter
		for _, id := range e.task.Terms().After {
			if b.ID == 0 && c.entries[id] != nil {
				b.ID = id
			}
		}
		if b.ID == 0 {
			b.By, b.Key, b.ID = task.ByKey, task.Bytes(e.task.Key), e.behind
			c.name(b)
		}
	case c.queue.paused || c.time.Stopped():
		c.byPause(b)
	case e.state == delayed:
		b.By, b.Until = task.ByRetry, c.time.Real(e.due)
	case e.state == parked:
		c.waitsFor(b, e, c.queue.ready.Waits(e.item.ID))
	default:
		if first != nil && first != e {
			b.By, b.Key, b.ID = task.ByKey, task.Bytes(e.task.Key), first.item.ID
			c.name(b)
		} else {
			c.waitsForAll(b)
		}
	}
	return b
}
