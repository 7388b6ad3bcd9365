package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"crew/runner/decide/task"
)

// retry carries out task.Retry, which crew ctl retry sends: it starts the next attempts of tasks now
// or, if the tasks have failed for good, runs them again as new tasks, together with the tasks that
// were not run because of them. With Feed.Open it only returns the new tasks; Add brings them once
// they are recorded. (willRetry decides whether another attempt follows a failed one.)
func (c *Core) retry(ids []uint64) (reply task.Reply) {
	chosen := map[uint64]bool{}
	for _, id := range ids {
		switch e := c.entries[id]; {
		case e != nil && e.state == delayed:
			c.queue.delay(e, c.run)
			reply.IDs = append(reply.IDs, id)
		case !chosen[id]:
			err := c.mayRetry(id)
			if reply.Err = cmp.Or(reply.Err, err); err == nil {
				chosen[id] = true
			}
		}
	}
	named := maps.Clone(chosen)
	for _, id := range c.withFollowers(chosen) {
		t := c.renew(id, named[id])
		reply.IDs, reply.Tasks = append(reply.IDs, t.ID), append(reply.Tasks, t)
	}
	if !c.cfg.Feed.Open {
		for _, t := range reply.Tasks {
			c.admit(t)
		}
	}
	return reply
}

// mayRetry returns why a task cannot be run again, or nil. Then it has claimed the task's targets
// again, so that no other task can be chosen that makes the same file, or is the same.
func (c *Core) mayRetry(id uint64) error {
	was, ok := c.queue.failed.tasks[id]
	switch {
	case c.entries[id] != nil:
		return fmt.Errorf("task %d does not wait for a retry", id)
	case was.rerunAs > 0:
		return fmt.Errorf("task %d was already run again as task %d", id, was.rerunAs)
	case ok && was.task.Block != nil && was.task.Block.Free != nil:
		return fmt.Errorf("task %d has ended, and its block of the stream is gone: the same command with --retry-failed runs it again", id)
	case ok:
		return c.queue.makers.claim(was.task)
	case !c.input.exists(id):
		return noTask(id)
	case c.cfg.Feed.Remember:
		return fmt.Errorf("task %d has not failed, or failed too long ago to be remembered", id)
	}
	return fmt.Errorf("task %d has ended: a failed task can be run again with --state", id)
}

// withFollowers returns the chosen tasks, and the tasks that can run once these have succeeded, in
// order. One pass is enough, since tasks come after tasks with lower IDs only.
func (c *Core) withFollowers(chosen map[uint64]bool) []uint64 {
	q := &c.queue
	if len(chosen) > 0 {
		for _, id := range slices.Sorted(maps.Keys(q.failed.tasks)) {
			was := q.failed.tasks[id]
			failed := func(id uint64) bool {
				latest := q.failed.latestRun(id)
				return !chosen[id] && c.entries[latest] == nil && !q.succeeded.Has(latest)
			}
			after := was.task.Terms().After
			follows := slices.ContainsFunc(after, func(id uint64) bool { return chosen[id] })
			if follows && was.outcome == task.NotRun && !chosen[id] && !slices.ContainsFunc(after, failed) && c.mayRetry(id) == nil {
				chosen[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(chosen))
}

// renew returns a new task that runs a failed one again. It comes after the dependencies of the old
// task that run again or are unfinished. Unless the user named the task, it keeps its time and
// hold.
func (c *Core) renew(id uint64, named bool) *task.Task {
	m := &c.queue.failed
	was := m.tasks[id]
	c.queue.makers.release(was.task)
	t := was.task.Again(c.Number(), was.attempt)
	left := func(ids []uint64) (after []uint64) {
		for _, id := range ids {
			latest := m.latestRun(id)
			_, failed := m.tasks[latest]
			if c.entries[id] != nil || latest != id && !failed {
				after = append(after, latest)
			}
		}
		return after
	}
	terms, old := t.Terms(), was.task.Terms()
	if terms.After, terms.AfterAny = left(old.After), left(old.AfterAny); !named {
		terms.At, terms.Held = old.At, old.Held
	}
	terms.RerunOf, t.Asked = id, &terms
	m.markRerun(t)
	return t
}
