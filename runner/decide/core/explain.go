package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

const (
	// explainEvery is how often explain looks for a reason.
	explainEvery = time.Second
	// maxGroups bounds the groups of waiting tasks in a snapshot.
	maxGroups = 100
	// maxListed bounds the answer to a task.Explain that names no tasks.
	maxListed = 1000
)

// explainer measures how long slots have been free while tasks were left to run.
type explainer struct {
	idle      bool // slots are free now, and tasks are left
	lastLook  time.Time
	lastStep  time.Time      // when idle was last set
	idleFor   time.Duration  // how long idle was true since the last look
	reported  *task.Blocking // the reason that was emitted last; nil once it no longer holds
	haltNoted bool           // noteHalt has given its notice about the present pause
}

// explain emits the reason why nothing starts, for people who watch the progress, if slots were free
// for at least half of the time since the last look. A task that starts now and then is no sign of
// progress: it only makes room for a few others. (describe answers crew ctl explain.)
func (c *Core) explain() {
	x := &c.explainer
	c.noteHalt()
	if x.idle {
		x.idleFor += c.run.Sub(x.lastStep)
	}
	idle := (c.freePlaces() > 0 || c.pool.capacity == 0) && c.hasWork() && !c.paused() || c.onlyWorkersLeft()
	if idle && !x.idle && x.reported == nil && x.idleFor == 0 {
		x.lastLook = c.run
	}
	x.idle, x.lastStep = idle, c.run
	passed := c.run.Sub(x.lastLook)
	if passed < explainEvery {
		return
	}
	var b *task.Blocking
	if idle && 2*x.idleFor >= passed {
		b = c.blocking()
	}
	if last := x.reported; b != nil && last != nil {
		now := *b
		now.Figure = last.Figure // changes all the time
		if now == *last {
			b = last
		}
	}
	if b != x.reported {
		c.output.emit(task.Event{Kind: task.Blocked, Blocking: b})
	}
	x.reported, x.lastLook, x.idleFor = b, c.run, 0
}

// noteHalt gives a notice, once, when Config.Halt has paused the run and tasks are left.
func (c *Core) noteHalt() {
	x := &c.explainer
	switch {
	case !c.queue.halted:
		x.haltNoted = false
	case c.hasWork() && !x.haltNoted:
		x.haltNoted = true
		c.output.notice(c.pauseBlocking(0).Text(c.now))
	}
}

// hasWork reports whether tasks are left to run, and the run is not ending.
func (c *Core) hasWork() bool {
	return c.end.phase == going && (!c.input.over() || c.queue.waiting() > 0)
}

// paused reports whether the run is paused or suspended.
func (c *Core) paused() bool { return c.queue.paused || c.time.Stopped() }

// pauseBlocking describes a number of tasks that wait because the run is paused.
func (c *Core) pauseBlocking(tasks int) task.Blocking {
	b := task.Blocking{By: task.ByPause, Tasks: tasks}
	if c.queue.halted {
		b.Halt = c.cfg.Halt.String()
	}
	return b
}

// blocking returns why nothing starts. It is nil if something can start, or only running tasks are left.
func (c *Core) blocking() *task.Blocking {
	all := c.queue.waiting()
	b := &task.Blocking{Tasks: all}
	switch {
	case c.end.sealed:
		b.By = task.ByReader
	case c.onlyWorkersLeft():
		b.By, b.Tasks = task.ByWorkers, c.pool.streams.serving
	case c.end.phase > going:
		b.By = task.ByEnd
	case c.paused():
		*b = c.pauseBlocking(all)
	case c.output.full():
		b.By = task.ByReader
	case all == 0 && c.input.over():
		return nil
	case all == 0 && c.output.order != nil && c.room() == 0:
		b.By, b.ID = task.ByOrder, c.output.order.Base()
	case all == 0:
		b.By = task.ByInput
	case c.queue.blockedBy == sched.ForSlot && c.freePlaces() <= 0:
		b.By, b.None = task.BySlots, c.pool.capacity == 0
		b.Input = b.None && c.readAheadFull()
	case c.queue.blockedBy == sched.ForMachine && c.pool.machine.blockedBy == "": // something may start in a moment
		return nil
	case c.queue.count[queued] == all && c.blockingLimit(b, sched.ForSlot, nil): // all wait for the same
	default:
		list := c.waitingGroups()
		b = &list[slices.IndexFunc(list, func(b task.Blocking) bool { return b.By != task.ByOrder })]
		b.Input = c.queue.blockedBy == sched.ForSlot && c.readAheadFull()
	}
	return b
}

// blockingLimit sets b to the limit that a task waits for, given the dispatcher's answer, and
// reports whether it found one. e may be nil for sched.ForSlot.
func (c *Core) blockingLimit(b *task.Blocking, wait sched.Wait, e *entry) bool {
	q, m := &c.queue, &c.pool.machine
	if wait == sched.ForSlot { // it waits for the same as all others
		if wait = q.blockedBy; wait == sched.ForPlaces {
			b.ID = q.ready.ReservedFor()
			e = c.entries[b.ID]
		}
	}
	if wait == sched.ForSlot || wait == sched.ForMachine && m.blockedBy == "" || wait == sched.ForKey && e.task.Turn != "" {
		return false // for a slot, or something may start in a moment
	}
	switch b.By = task.Cause(wait); wait {
	case sched.ForDelay, sched.ForRate:
		b.Until = c.time.Real(q.askAgain)
	case sched.ForMachine:
		if b.By, b.Figure, b.Bound = m.blockedBy, m.blockedFigure, m.cfg.Load; b.By == task.ByMemory {
			b.Bound = float64(m.cfg.Memory)
		}
	case sched.ForKey:
		b.Key, b.Limit = task.Bytes(e.task.Key), c.cfg.Queue.PerKey
	case sched.ForKeyRate:
		b.Key = task.Bytes(e.task.Key)
	case sched.ForUnits:
		b.Needs = task.NeedsText(e.task.Terms().Needs)
	case sched.ForStock:
		own := func(n task.Need) bool { return q.caps.units[n.Name] != nil }
		b.Needs, b.None = task.NeedsText(slices.DeleteFunc(slices.Clone(e.task.Terms().Needs), own)), true
	case sched.ForPlaces:
		b.Limit = q.ready.Width(e.item.Claim)
	}
	return true
}

// onlyWorkersLeft reports whether all tasks are finished and only worker processes have yet to end.
func (c *Core) onlyWorkersLeft() bool {
	return c.pool.streams.serving > 0 && len(c.entries) == 0 && (c.input.over() || c.end.phase > going)
}

// readAheadFull reports whether nothing more is read because the read-ahead is full.
func (c *Core) readAheadFull() bool {
	return !c.input.over() && !c.cfg.Feed.Open && (2*c.queue.count[queued] >= c.buffer() || c.room() == 0)
}

// waitingGroups groups the waiting tasks by what holds them up. The largest group comes first;
// equal ones are in order of their first task.
func (c *Core) waitingGroups() (list []task.Blocking) {
	groups := map[task.Blocking]int{} // index in list, plus 1
	for _, id := range slices.Sorted(maps.Keys(c.entries)) {
		e := c.entries[id]
		if !e.state.isWaiting() && !e.sentAhead() {
			continue
		}
		b := c.blockingOf(e)
		switch {
		case e.sentAhead():
			b.By, b.Slot = task.BySlots, 0
		case b.By == task.ByKey && b.Slot > 0: // the first task of a key changes all the time
			b.ID = 0
		}
		of := b
		if of.Until = (time.Time{}); of.By == task.ByKey {
			of.Slot, of.ID = 0, 0
		}
		if groups[of] == 0 {
			list = append(list, b)
			groups[of] = len(list)
			continue
		}
		g := &list[groups[of]-1]
		g.Tasks++
		g.Until = earlier(g.Until, b.Until)
	}
	if n := int(c.output.stats.Finished() - c.output.stats.Released); n > 0 {
		list = append(list, task.Blocking{By: task.ByOrder, Tasks: n, ID: c.output.order.Base()})
	}
	slices.SortStableFunc(list, func(x, y task.Blocking) int { return y.Tasks - x.Tasks })
	return list[:min(len(list), maxGroups)]
}

// describe returns descriptions of the tasks that cmd names or, if it has no IDs, of the first
// tasks that it selects.
func (c *Core) describe(cmd task.Command) (list []task.Where) {
	ids := cmd.IDs
	if len(ids) == 0 {
		ids = c.listed(cmd.Only)
		ids = ids[:min(len(ids), cmp.Or(cmd.N, maxListed))]
	}
	for _, id := range ids {
		list = append(list, c.describeTask(id))
	}
	return list
}

// listed returns the IDs of the tasks that a task.Explain without IDs selects, in order: the waiting ones
// in the order in which they would start, as far as that is known, which is without keys, limits and
// the costs of tasks.
func (c *Core) listed(only string) (ids []uint64) {
	var turns [][5]int64
	for id, e := range c.entries {
		switch waits := e.state.isWaiting() || e.sentAhead(); {
		case waits && only == "waiting":
			turns = append(turns, c.turn(e))
		case only == "", !waits && only != "waiting":
			ids = append(ids, id)
		}
	}
	if only == "" {
		for id, was := range c.queue.failed.tasks {
			if was.rerunAs == 0 {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	slices.SortFunc(turns, func(a, b [5]int64) int { return slices.Compare(a[:], b[:]) })
	for _, t := range turns {
		ids = append(ids, uint64(t[4]))
	}
	return ids
}

// stages are the first parts of turns. Tasks that were sent ahead have 0.
var stages = [states]int64{queued: 1, parked: 1, checking: 2, timed: 2, delayed: 2, following: 3, held: 4}

// turn returns the place of a waiting task among all others: its stage, the time that it waits for, its
// rank, its place in the queue, and its ID. Turns compare like slices.
func (c *Core) turn(e *entry) [5]int64 {
	t := [...]int64{stages[e.state], 0, e.item.Rank, 0, int64(e.item.ID)}
	switch e.state {
	case queued, parked:
		t[3] = e.nth
	case timed:
		t[1] = e.task.Asked.At.UnixNano()
	case delayed:
		t[1] = c.time.Real(e.due).UnixNano()
	}
	return t
}

// describeTask returns a description of a task, even if it has ended or does not exist.
func (c *Core) describeTask(id uint64) (w task.Where) {
	if e := c.entries[id]; e != nil {
		if e.slot != nil && !e.sentAhead() {
			return e.describe(c.run)
		}
		w = task.NewWhere("ended", e.task)
		if w.Attempt = e.number; e.state != decided {
			b := c.blockingOf(e)
			if (e.state == queued || e.state == parked || e.state == delayed) && c.paused() {
				b = c.pauseBlocking(1)
			}
			w.State, w.Blocking = "waiting", &b
		}
		return w
	}
	was := c.queue.failed.tasks[id]
	w = task.NewWhere("ended", was.task)
	w.Task, w.Outcome, w.Attempt = id, was.outcome, was.attempt
	switch {
	case !c.input.exists(id):
		w.State = "unknown"
	case c.output.order != nil && id >= c.output.order.Base():
		w.State, w.Held = "held", c.output.order.Base()
	}
	return w
}

// blockingOf returns the reason why a waiting task waits, apart from a pause of the run.
func (c *Core) blockingOf(e *entry) task.Blocking {
	b := task.Blocking{By: task.BySlots, Tasks: 1}
	switch {
	case e.sentAhead():
		b.By, b.Slot = task.BySlot, e.slot.ID
	case e.state == checking:
		b.By = task.ByCheck
	case e.state == held:
		b.By = task.ByHold
	case e.state == timed:
		b.By, b.Until = task.ByTime, e.task.Asked.At
	case e.state == delayed:
		b.By, b.Until = task.ByRetry, c.time.Real(e.due)
	case e.state == following:
		awaited := e.task.Terms().Awaited()
		b.By, b.ID = task.ByAfter, awaited[slices.IndexFunc(awaited, func(id uint64) bool { return c.entries[id] != nil })]
	default:
		wait, choice := sched.ForSlot, c.queue.ready.Choice(&e.item)
		if e.state == parked {
			wait = c.queue.ready.Waits(&e.item)
		}
		switch first := c.entries[choice.First]; {
		case wait == sched.ForSlot && first != nil && first != e:
			b.By, b.Key, b.ID = task.ByKey, task.Bytes(e.task.Key), first.item.ID
			if first.slot != nil {
				b.Slot = first.slot.ID
			}
		case c.blockingLimit(&b, wait, e):
		case choice.Key && e.task.Key != "":
			b.By, b.Slot, b.Key, b.None = task.ByKey, choice.Slot, task.Bytes(e.task.Key), choice.None
		case choice.Slot > 0:
			b.By, b.Slot = task.BySlot, choice.Slot
		}
	}
	b.None = b.None || b.By == task.BySlots && c.pool.capacity == 0
	return b
}
