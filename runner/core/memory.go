package core

import (
	"fmt"

	"crew/runner/task"
)

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
func (c *Core) retry(id uint64) (uint64, error) {
	if e := c.entries[id]; e != nil {
		if e.state != delayed {
			return 0, fmt.Errorf("task %d does not wait for a retry", id)
		}
		c.queue.delay(e, c.run)
		return id, nil
	}
	was, ok := c.queue.memory.tasks[id]
	switch {
	case ok:
	case !c.input.exists(id):
		return 0, noTask(id)
	case c.cfg.Feed.Remember:
		return 0, fmt.Errorf("task %d has not failed, or did so long ago", id)
	default:
		return 0, fmt.Errorf("task %d has ended: a failed task can be run again with --state", id)
	}
	if b := was.task.Block; b != nil && b.Free != nil {
		return 0, fmt.Errorf("task %d has ended, and its block of the stream is gone: the same command with --retry-failed runs it again", id)
	}
	c.queue.memory.forget(id)
	again := *was.task
	again.ID, again.Done, again.Attempts, again.After = c.Number(), nil, was.attempt, nil
	again.Failures, again.Known = 0, nil
	c.admit(&again)
	return again.ID, nil
}

func noTask(id uint64) error { return fmt.Errorf("there is no task %d", id) }
