package core

import (
	"cmp"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// minReadAhead tasks may be read ahead whatever their size, unless Queue.Few is set.
const minReadAhead = 64

// maxTurnRank bounds the rank of a task that waits for its turn. It is below sched.ManualRank, so
// the task keeps its position in its key.
const maxTurnRank = 1 << 20

// input knows which tasks are still to come, from the reader or by commands.
type input struct {
	lastID  atomic.Uint64 // the last task ID handed out
	ended   bool
	stopped bool      // nothing more is read or added
	reading bool      // the reader is awake
	fed     bool      // task.Add has come
	idleAt  time.Time // since when the run has had no tasks; zero while it has some
}

// over reports whether no more tasks come.
func (i *input) over() bool { return i.ended || i.stopped }

// exists reports whether a task ID was handed out.
func (i *input) exists(id uint64) bool { return id > 0 && id <= i.lastID.Load() }

// reserve marks the IDs up to last as handed out.
func (i *input) reserve(last uint64) { i.lastID.Store(max(i.lastID.Load(), last)) }

// Number returns the ID of a new task. All IDs come from here. Unless Feed.Open is set, the task
// must then be admitted; tasks may be admitted in any order. Number is safe for concurrent use, even
// with Step.
func (c *Core) Number() uint64 { return c.input.lastID.Add(1) }

// Read admits tasks from the reader, and returns how many more it may bring. If that is 0, the
// reader must wait for Effects.Read.
func (c *Core) Read(tasks []*task.Task) (room int) {
	for _, t := range tasks {
		c.admit(t)
	}
	room = c.room()
	c.input.reading = room > 0
	return min(room, batch)
}

// room returns how many more tasks may be read.
func (c *Core) room() int {
	q, o := &c.queue, &c.output
	if c.input.over() || c.end.phase > going || c.end.sealed || c.asideFull() || o.full() {
		return 0
	}
	n := c.buffer() - q.readAhead()
	if most := c.cfg.Queue.Bytes; most > 0 && q.bytes[queued] >= most {
		n = min(n, cmp.Or(c.cfg.Queue.Few, minReadAhead)-q.readAhead())
	}
	if o.order != nil {
		n = min(n, c.cfg.Order.Window-int(o.stats.Admitted-o.stats.Released))
	}
	return max(n, 0)
}

// buffer returns how many tasks may be read ahead.
func (c *Core) buffer() int {
	if c.cfg.Pool.Remote { // its slots join later
		return max(c.cfg.Queue.Buffer, 2*c.pool.capacity)
	}
	return c.cfg.Queue.Buffer
}

// asideFull reports whether the tasks outside the read-ahead have used up their space.
func (c *Core) asideFull() bool {
	n, bytes := c.queue.aside()
	return n >= asideTasks || bytes >= max(asideBytes, c.cfg.Queue.Bytes)
}

// shouldRead reports whether to wake the reader: when half of the read-ahead is used up, so that it
// reads many tasks at a time, or when a slot is free.
func (c *Core) shouldRead() bool {
	if c.input.reading || c.room() == 0 {
		return false
	}
	c.input.reading = c.queue.count[queued] <= c.buffer()/2 || c.freePlaces() > 0
	return c.input.reading
}

// admit takes a task into the run.
func (c *Core) admit(t *task.Task) {
	if c.end.sealed { // the reader was reading it meanwhile
		return
	}
	c.output.emit(task.Event{Kind: task.Admitted, ID: t.ID, Task: t})
	if len(c.spare) == 0 {
		c.spare = append(c.spare, &entry{})
	}
	last := len(c.spare) - 1
	e := c.spare[last]
	c.spare = c.spare[:last]
	e.task, e.size, e.number, e.failures = t, t.Size(), t.Attempts, int(t.Failures)
	e.item.ID, e.timer.ID, e.item.Cost = t.ID, t.ID, max(t.Cost, 1)
	if k := t.History; k != nil {
		e.before, e.omitted = slices.Clip(k.Before), k.Omitted
	}
	if c.cfg.Queue.Terms {
		e.item.Rank = c.rank(t)
	}
	if t.Asked != nil {
		c.queue.failed.markRerun(t)
		c.queue.lowestRank, c.queue.highestRank = min(c.queue.lowestRank, t.Asked.Rank), max(c.queue.highestRank, t.Asked.Rank)
	}
	if key := cmp.Or(t.Turn, t.Key); key != "" {
		e.item.Key, e.item.StableKey = sched.Hash(key), sched.StableHash(key)
	}
	c.entries[t.ID] = e
	switch {
	case t.Done != nil:
		c.finish(e, t.Done)
		c.checkHalt(nil) // fewer tasks are left, so the percentage has grown
		return
	case t.Err != nil:
		c.refuse(e, t.Err)
		return
	case c.end.phase > going:
		c.notRun(e)
		return
	}
	var err, why error
	if e.item.Claim, err = c.queue.caps.claim(t); err == nil {
		why = c.queue.addDependencies(e)
	}
	if err == nil && why == nil {
		err = c.queue.makers.claim(t)
	}
	switch {
	case why != nil:
		c.skip(e, why)
	case err != nil:
		c.refuse(e, err)
	default:
		c.schedule(e)
	}
}

// rank returns the rank of a task, which follows from its priority and age unless it was given by hand.
func (c *Core) rank(t *task.Task) int64 {
	terms := t.Terms()
	rank := cmp.Or(terms.Rank, c.queue.age(-int64(terms.Priority)))
	if c.waitsForTurn(t) {
		rank = max(-maxTurnRank, min(rank, maxTurnRank))
	}
	return rank
}

// refuse ends a task that cannot be run, once that is recorded.
func (c *Core) refuse(e *entry, err error) {
	c.recordEnd(e, &task.Result{Task: e.task, Outcome: task.StartFailed, Err: err, Code: 126, Start: c.now, End: c.now})
}

// recordEnd ends a task without an attempt, once its result is recorded.
func (c *Core) recordEnd(e *entry, r *task.Result) {
	c.queue.setState(e, decided)
	e.result = r
	c.fx.Record = append(c.fx.Record, r)
}

// roomToAdd returns how many tasks may be added. Tasks that free slots can take at once need no
// room.
func (c *Core) roomToAdd() int {
	most := c.cfg.Feed.MaxQueued
	if most == 0 {
		return math.MaxInt
	}
	free := 0
	if c.end.phase == going && !c.queue.paused {
		free = max(0, c.freePlaces())
	}
	return max(0, most+free-c.queue.waiting())
}

// EndInput reports the end of the input: err is io.EOF, or the error that ended it. After an error
// the tasks read so far still run, and then the run fails.
func (c *Core) EndInput(err error) {
	if err != io.EOF {
		c.end.setReason(Broken, nil, err)
	}
	c.input.ended = true
	c.output.emit(task.Event{Kind: task.InputEnd})
}

// endFeed ends the input of a run that gets its tasks from commands: its number of tasks is now
// final.
func (c *Core) endFeed() {
	if c.cfg.Feed.Open && !c.input.ended {
		c.EndInput(io.EOF)
	}
}

// stopInput notes that nothing more is read or added.
func (c *Core) stopInput() {
	c.endFeed()
	c.input.stopped = true
}

// checkIdleExit stops the input once the run has had no tasks for Feed.IdleExit.
func (c *Core) checkIdleExit() {
	limit, i := c.cfg.Feed.IdleExit, &c.input
	switch {
	case limit == 0 || !i.fed:
	case len(c.entries) > 0:
		i.idleAt = time.Time{}
	case i.idleAt.IsZero():
		i.idleAt = c.run
	case !c.run.Before(i.idleAt.Add(limit)):
		c.stopInput()
	}
}
