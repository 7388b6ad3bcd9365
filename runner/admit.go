package runner

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"crew/runner/task"
	"crew/sched"
)

// room is the number of tasks that may still be read.
func (c *core) room() int {
	if c.readAll() || c.phase > going || c.sealed || c.crowded() || len(c.events) >= outboxFull {
		return 0
	}
	n := c.buffer() - c.count[queued]
	if most := c.cfg.Pool.Bytes; most > 0 && c.bytes[queued] >= most {
		n = min(n, cmp.Or(c.cfg.Pool.Few, fewTasks)-c.count[queued])
	}
	if c.order != nil {
		n = min(n, c.cfg.Order.Window-int(c.stats.Admitted-c.stats.Released))
	}
	return max(n, 0)
}

// buffer returns how many tasks may be read ahead.
func (c *core) buffer() int {
	if c.cfg.Pool.Remote { // the number of slots is not known before
		return max(c.cfg.Pool.Buffer, 2*c.capacity)
	}
	return c.cfg.Pool.Buffer
}

// crowded reports whether the space outside the read-ahead is used up.
func (c *core) crowded() bool {
	return c.aside() >= asideTasks || c.bytes[parked]+c.bytes[held]+c.bytes[delayed] >= max(asideBytes, c.cfg.Pool.Bytes)
}

// aside is the number of tasks that wait outside the read-ahead.
func (c *core) aside() int { return c.count[parked] + c.count[held] + c.count[delayed] }

// waits is the number of waiting tasks.
func (c *core) waits() int { return c.count[queued] + c.aside() }

// readAll reports whether no more tasks come.
func (c *core) readAll() bool { return c.inputEnd || c.rest }

// low reports whether to wake the reader: when half of the read-ahead is used up,
// so that it reads many tasks at a time, or when a slot is free.
func (c *core) low() bool {
	return c.room() > 0 && (c.count[queued] <= c.buffer()/2 || c.running < c.capacity)
}

// number returns the number of a new task, which must then be admitted, in any
// order. It is safe for concurrent use and the only method called outside Run.do.
func (c *core) number() uint64 { return c.numbered.Add(1) }

// admit takes a task into the run.
func (c *core) admit(t *task.Task) {
	if c.sealed {
		return
	}
	if t.ID == 0 || t.ID > c.numbered.Load() {
		panic(fmt.Sprintf("internal error: task %d of %d admitted", t.ID, c.numbered.Load()))
	}
	c.stats.Apply(c.event(task.Admitted, t.ID, t))
	e := c.newEntry()
	*e = entry{
		task: t, item: sched.Item{ID: t.ID, Cost: max(t.Cost, 1)}, size: t.Size(),
		attempt: t.Attempts, failures: t.Failures,
	}
	if k := t.Known; k != nil {
		e.before, e.omitted = slices.Clip(k.Before), k.Omitted
	}
	if t.Key != "" {
		e.item.Key, e.item.Place = sched.Hash(t.Key), sched.Place(t.Key)
	}
	c.entries[t.ID] = e
	waits, vain := c.holds(e)
	switch {
	case t.Done != nil:
		c.finish(e, t.Done)
		c.halt() // fewer tasks are left, so the share that counts has grown
	case t.Err != nil:
		c.refuse(e, t.Err)
	case c.phase > going:
		c.notRun(e)
	case vain != nil:
		c.refuse(e, vain)
	case waits:
		c.set(e, held)
	case !c.enqueue(e):
		c.refuse(e, noWorker(t.Key))
	}
}

// refuse ends a task that cannot be run, once that is recorded.
func (c *core) refuse(e *entry, err error) {
	c.set(e, decided)
	t := e.task
	e.result = &task.Result{Task: t, Outcome: task.StartFailed, Err: err, Code: 126, Start: c.now, End: c.now}
	c.refused = append(c.refused, refused{e, t, e.result})
}

func noWorker(key string) error {
	return fmt.Errorf("no worker takes key %q: give it a topic, or add '*=N' to --topics", key)
}

func (c *core) newEntry() *entry {
	if n := len(c.spare); n > 0 {
		e := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return e
	}
	return new(entry)
}

// enqueue gives a task to the limiter and then to the policy. It returns false if
// the policy has no slot that would ever take it.
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

// add admits tasks that a command brings.
func (c *core) add(tasks []*task.Task) error {
	last := c.numbered.Load()
	for _, t := range tasks {
		if t.ID <= last {
			panic(fmt.Sprintf("internal error: task %d added after task %d", t.ID, last))
		}
		for _, id := range t.After {
			if id == 0 || id >= t.ID {
				return fmt.Errorf("no task %d came before, which task %d could come after", id, t.ID)
			}
		}
		last = t.ID
	}
	for _, t := range tasks {
		c.skip(t.ID - 1)
		c.numbered.Store(t.ID)
		c.admit(t)
	}
	return nil
}

// skip leaves out the numbers up to last.
func (c *core) skip(last uint64) {
	if n := c.numbered.Load(); last > n {
		c.skipped += last - n
		c.numbered.Store(last)
	}
}

// endInput takes the end of the input: io.EOF, or what broke it. After a broken
// input the tasks read so far still run, and then the run has failed.
func (c *core) endInput(err error) {
	if err != io.EOF {
		c.ends(Broken, nil, err)
	}
	c.inputEnd = true
	c.emit(task.Event{Kind: task.InputEnd})
}

// endFeed ends the input of a run that takes its tasks from commands: its number of
// tasks is final.
func (c *core) endFeed() {
	if c.cfg.Feed.Open && !c.inputEnd {
		c.endInput(io.EOF)
	}
}
