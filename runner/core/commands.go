package core

import (
	"cmp"
	"fmt"
	"slices"

	"crew/runner/task"
)

// Do carries out a command.
func (c *Core) Do(cmd task.Command) (reply task.Reply) {
	if err := c.refusal(cmd); err != nil {
		return task.Reply{Err: err}
	}
	switch cmd.Op {
	case task.Drain, task.Stop, task.Kill:
		c.told(cmd)
	case task.Fail:
		if c.end.phase == going && !c.end.sealed {
			c.Abort(cmd.Err)
		}
	case task.Rest:
		c.stopReading()
	case task.Resize:
		reply.Err = c.resize(cmd.N)
	case task.Grow:
		reply.Err = c.resize(len(c.pool.own()) + cmd.N)
	case task.Join:
		reply.Slots = c.join(cmd.Slot, max(cmd.N, 1))
	case task.Leave:
		if c.pool.slot(cmd.N) != nil {
			c.leave(cmd.N)
		} else {
			reply.Err = fmt.Errorf("there is no worker %d", cmd.N)
		}
	case task.Pause, task.Resume:
		c.queue.paused = cmd.Op == task.Pause
	case task.Suspend:
		c.clock.stop()
	case task.Continue:
		if lost := c.clock.start(); lost > 0 {
			c.output.emit(task.Event{Kind: task.Continued, Wait: lost})
		}
	case task.Add:
		c.input.fed = true
		if cmd.N == 0 && len(cmd.Tasks) > c.mayAdd() {
			reply.Err = task.ErrFull
		} else {
			reply.Err = c.add(cmd.Tasks)
			c.input.skip(uint64(cmd.N))
		}
		reply.Room = c.mayAdd()
	case task.Cancel:
		reply.IDs, reply.Err = c.cancelAll(cmd)
	case task.Retry:
		for _, id := range cmd.IDs {
			again, err := c.retry(id)
			if err == nil {
				reply.IDs = append(reply.IDs, again)
			}
			reply.Err = cmp.Or(reply.Err, err)
		}
	case task.Look:
		reply.Snapshot = c.snapshot()
	case task.Explain:
		reply.Wheres = c.wheres(cmd.IDs)
	}
	return reply
}

// stopReading has the run run what it has read, and says so.
func (c *Core) stopReading() {
	if c.input.over() {
		return
	}
	c.rest()
	if !c.input.ended {
		c.end.because(Told, nil, nil)
	}
	c.output.notice("draining: nothing more is read; what was read still runs")
}

// cancelAll cancels the tasks that a command names, and returns those that it could
// cancel.
func (c *Core) cancelAll(cmd task.Command) (ids []uint64, err error) {
	named := cmd.IDs
	if len(named) == 0 {
		for id, e := range c.entries {
			if e.task.Key == cmd.Key {
				named = append(named, id)
			}
		}
		slices.Sort(named)
		if len(named) == 0 {
			return nil, fmt.Errorf("no task of key %q runs or waits", cmd.Key)
		}
	}
	for _, id := range named {
		switch {
		case c.entries[id] != nil:
			c.cancel(c.entries[id], cmd.Kill)
			ids = append(ids, id)
		case c.input.exists(id):
			err = cmp.Or(err, fmt.Errorf("task %d has ended", id))
		default:
			err = cmp.Or(err, noTask(id))
		}
	}
	return ids, err
}

// snapshot describes what the run does now.
func (c *Core) snapshot() *task.Snapshot {
	s := &task.Snapshot{At: c.now, State: c.state(), Stats: c.output.stats, Blocking: c.blocking()}
	for _, at := range c.pool.places {
		if at.slot != nil {
			s.Slots = append(s.Slots, *at.slot)
		}
	}
	for _, id := range c.holders() {
		s.Running = append(s.Running, *c.entries[id].running())
	}
	slices.SortStableFunc(s.Running, func(a, b task.Running) int { return a.Slot - b.Slot })
	s.Waiting = c.waiting()
	s.Queued, s.Buffer = c.queue.count[queued], c.buffer()
	s.Aside, _ = c.queue.aside()
	return s
}
