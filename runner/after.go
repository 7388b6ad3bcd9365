package runner

import (
	"fmt"

	"crew/runner/task"
)

// Tasks may come after others (task.Task.After): they start once all of those have
// succeeded, and if one ends otherwise they end as start-failed.

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
		c.skipped += t.ID - 1 - c.numbered.Load()
		c.numbered.Store(t.ID)
		c.admit(t)
	}
	return nil
}

// holds reports whether a task has to wait for others. The error is that it waits
// in vain.
func (c *core) holds(e *entry) (bool, error) {
	for _, id := range e.task.After {
		if first := c.entries[id]; first != nil {
			c.after[id] = append(c.after[id], e.item.ID)
			e.awaits++
		} else if was, ok := c.memory.tasks[id]; ok {
			return false, inVain(id, was.outcome)
		}
	}
	return e.awaits > 0, nil
}

func inVain(id uint64, o task.Outcome) error {
	return fmt.Errorf("task %d, which it comes after, did not succeed: %v", id, o)
}

// goOn tells the tasks that come after one how that has ended.
func (c *core) goOn(id uint64, o task.Outcome) {
	waiting, ok := c.after[id]
	if !ok {
		return
	}
	delete(c.after, id)
	for _, id2 := range waiting {
		e := c.entries[id2]
		if e == nil || e.state != held {
			continue
		}
		if o == task.OK {
			if e.awaits--; e.awaits == 0 && !c.enqueue(e) {
				c.refuse(e, noWorker(e.task.Key))
			}
		} else if c.phase == going { // otherwise it ends as not run
			c.refuse(e, inVain(id, o))
		}
	}
}

// memory holds the latest tasks that have failed or were cancelled, the oldest
// first.
type memory struct {
	tasks map[uint64]remembered
	order []uint64
	bytes int
}

type remembered struct {
	task    *task.Task
	outcome task.Outcome
	attempt int
}

// keep remembers a task and forgets others if there are too many.
func (m *memory) keep(r *task.Result, t *task.Task) {
	if m.tasks == nil {
		m.tasks = map[uint64]remembered{}
	}
	m.tasks[t.ID] = remembered{t, r.Outcome, r.Attempt}
	m.order = append(m.order, t.ID)
	m.bytes += t.Size()
	for len(m.order) > asideTasks || m.bytes > asideBytes && len(m.tasks) > 1 {
		m.forget(m.order[0])
		m.order = m.order[1:]
	}
}

func (m *memory) forget(id uint64) {
	if was, ok := m.tasks[id]; ok {
		m.bytes -= was.task.Size()
		delete(m.tasks, id)
	}
}

// retry starts the next attempt of a task now or, if it has failed for good, runs it
// again as a new task. It returns the number under which it runs.
func (c *core) retry(id uint64) (uint64, error) {
	if e := c.entries[id]; e != nil {
		if e.state != delayed {
			return 0, fmt.Errorf("task %d does not wait for a retry", id)
		}
		e.due = c.run
		c.delayed.Push(id, c.run)
		return id, nil
	}
	was, ok := c.memory.tasks[id]
	switch {
	case ok:
	case !c.exists(id):
		return 0, noTask(id)
	case c.cfg.Feed.Remember:
		return 0, fmt.Errorf("task %d has not failed, or was long ago", id)
	default:
		return 0, fmt.Errorf("task %d has ended: a failed task can be run again with --state", id)
	}
	c.memory.forget(id)
	again := *was.task
	again.ID, again.Done, again.Failures, again.Attempts = c.number(), nil, 0, was.attempt
	c.admit(&again)
	return again.ID, nil
}

func (c *core) exists(id uint64) bool { return id > 0 && id <= c.numbered.Load() }

func noTask(id uint64) error { return fmt.Errorf("there is no task %d", id) }

// where says what is known of a task.
func (c *core) where(id uint64) task.Where {
	w := task.Where{ID: id, Known: c.exists(id)}
	if e := c.entries[id]; e != nil {
		w.Task, w.Attempt = e.task, e.attempt
		if e.slot != nil {
			w.Running = e.running()
		} else {
			w.Blocking = c.reason(e)
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

// reason returns what a waiting task waits for.
func (c *core) reason(e *entry) *task.Blocking {
	b := &task.Blocking{By: task.BySlots, Tasks: 1}
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
		if first := c.ahead(e); first != nil {
			b.By, b.Key, b.ID = task.ByKey, e.task.Key, first.item.ID
			if first.slot != nil {
				b.Slot = first.slot.ID
			}
		} else if c.run.Before(c.nextStart) {
			b.By, b.Until = task.ByDelay, c.clock.real(c.nextStart)
		}
	}
	return b
}

// ahead returns the task that keeps a queued one from its turn because both have
// one key, under a policy that runs such tasks one at a time.
func (c *core) ahead(e *entry) (first *entry) {
	if !c.policy.Serial() || e.task.Key == "" {
		return nil
	}
	for id, o := range c.entries {
		if o.item.Key == e.item.Key && id < e.item.ID && o.state != held && (first == nil || id < first.item.ID) {
			first = o
		}
	}
	return first
}
