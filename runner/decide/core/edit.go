package core

import (
	"cmp"
	"fmt"
	"slices"

	"crew/runner/decide/task"
)

// isWaiting reports whether a task in state s waits.
func (s state) isWaiting() bool { return s != nowhere && s != running && s != decided }

// editWaiting carries out a Hold, Release or Move.
func (c *Core) editWaiting(cmd task.Command) (reply task.Reply) {
	ids := cmd.IDs
	if cmd.Op == task.Move && cmd.N < 0 { // the first one must be moved last
		ids = slices.Clone(ids)
		slices.Reverse(ids)
	}
	for _, id := range ids {
		e, err := c.unfinished(id)
		switch {
		case err != nil:
		case e.sentAhead():
			err = fmt.Errorf("task %d was already sent to a worker", id)
		case !e.state.isWaiting():
			err = fmt.Errorf("task %d is already running", id)
		default:
			err = c.setTerms(e, cmd)
		}
		if err != nil {
			reply.Err = cmp.Or(reply.Err, err)
			continue
		}
		reply.IDs, reply.Tasks = append(reply.IDs, id), append(reply.Tasks, e.task)
	}
	return reply
}

// unfinished returns the entry of a task, or an error if the task has ended or does not exist.
func (c *Core) unfinished(id uint64) (*entry, error) {
	switch e := c.entries[id]; {
	case e != nil:
		return e, nil
	case c.input.exists(id):
		return nil, fmt.Errorf("task %d has ended", id)
	}
	return nil, noTask(id)
}

// setTerms changes the terms of a waiting task as cmd asks.
func (c *Core) setTerms(e *entry, cmd task.Command) error {
	q, terms := &c.queue, e.task.Terms()
	switch {
	case cmd.Op == task.Hold:
		terms.Held = true
	case cmd.Op == task.Move && cmd.N < 0:
		q.lowestRank--
		terms.Rank = q.lowestRank
	case cmd.Op == task.Move:
		q.highestRank++
		terms.Rank = q.highestRank
	case terms.Held:
		terms.Held = false
	case terms.At.After(c.now):
		terms.At = c.now
	default:
		return fmt.Errorf("task %d is neither held nor waiting for its time", e.item.ID)
	}
	q.edits++
	changed := *e.task
	changed.Asked = &terms
	c.replaceTask(e, &changed)
	return nil
}

// replaceTask gives a waiting entry a task with other terms, and schedules it again. If the task is
// being checked, the check continues. A queued task needs its turn again: if it is held, it must not let
// the tasks of its key pass.
func (c *Core) replaceTask(e *entry, t *task.Task) {
	if e.state != checking {
		c.queue.unqueue(e)
	}
	e.hasTurn = e.hasTurn && e.state != queued && e.state != parked
	c.queue.bytes[e.state] += t.Size() - e.size
	if e.task, e.size = t, t.Size(); t.Asked.Rank != 0 { // otherwise the rank may be lent
		e.item.Rank = c.rank(t)
	}
	if e.state != checking {
		c.schedule(e)
	}
}

// find carries out a Find.
func (c *Core) find(cmd task.Command) (reply task.Reply) {
	reply.IDs = c.named(cmd)
	for _, id := range reply.IDs {
		if e := c.entries[id]; e != nil {
			reply.Tasks = append(reply.Tasks, e.task)
		} else if !c.input.exists(id) {
			return task.Reply{Err: noTask(id)}
		}
	}
	return reply
}

// named returns the IDs in cmd or, if there are none, the IDs of the unfinished tasks of its
// Unique, of its key or, with All, of the run.
func (c *Core) named(cmd task.Command) (ids []uint64) {
	switch by := c.queue.makers[cmd.Unique]; {
	case by > 0:
		return []uint64{by}
	case len(cmd.IDs) > 0 || cmd.Unique != 0:
		return cmd.IDs
	}
	for id, e := range c.entries {
		if cmd.All || e.task.Key == cmd.Key {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
