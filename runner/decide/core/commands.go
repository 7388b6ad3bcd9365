package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"crew/runner/decide/task"
)

// Do carries out a command.
func (c *Core) Do(cmd task.Command) (reply task.Reply) {
	if err := c.refusal(cmd); err != nil {
		return task.Reply{Err: err}
	}
	switch cmd.Op {
	case task.Drain, task.Stop, task.Kill:
		c.endByCommand(cmd)
	case task.Fail:
		if c.end.phase == going && !c.end.sealed {
			c.Abort(cmd.Err)
		}
	case task.StopReading:
		c.stopReading()
	case task.Resize:
		reply.Err = c.resize(cmd.N)
	case task.Grow:
		reply.Err = c.resize(cmd.N + len(c.pool.ownSlots()))
	case task.Join:
		reply.Slots = c.pool.join(cmd.Slot, max(cmd.N, 1))
	case task.Leave:
		c.leave(cmd.N)
	case task.Pause:
		c.queue.paused = true
	case task.Resume:
		c.resume()
	case task.Suspend:
		c.time.Stop(c.now)
	case task.Continue:
		if lost := c.time.Start(c.now); lost > 0 {
			c.tick(c.now)
			c.output.emit(task.Event{Kind: task.Continued, Wait: lost})
			for _, id := range c.ids(timed) {
				c.queue.due.Push(&c.entries[id].timer, c.run)
			}
		}
	case task.Add:
		return c.addTasks(cmd)
	case task.Cancel:
		reply.IDs, reply.Err = c.cancelAll(cmd)
	case task.Retry:
		return c.retry(cmd.IDs)
	case task.Hold, task.Release, task.Move:
		return c.editWaiting(cmd)
	case task.Find:
		return c.find(cmd)
	case task.Look:
		reply.Snapshot = c.snapshot()
	case task.Explain:
		reply.Wheres = c.describe(cmd)
	}
	return reply
}

// resize sets the number of slots of this machine.
func (c *Core) resize(n int) error {
	if c.cfg.Pool.Remote {
		return errors.New("its workers are on other machines: -S or crew worker starts them there")
	}
	c.pool.resize(n, c.cfg.Pool.Window)
	return nil
}

// leave removes a slot that is in, and asks for the attempts back that wait there.
func (c *Core) leave(slot int) {
	c.pool.leave(slot)
	for _, e := range c.pool.slots[slot].attempts {
		c.recallOne(e)
	}
}

// addTasks admits the tasks of cmd, if there is room for them. Their IDs come from Number or from
// an earlier run.
func (c *Core) addTasks(cmd task.Command) (reply task.Reply) {
	c.input.fed = true
	if cmd.N == 0 && len(cmd.Tasks) > c.roomToAdd() {
		return task.Reply{Err: task.ErrFull, Room: c.roomToAdd()}
	}
	for _, r := range cmd.Succeeded {
		c.queue.succeeded.Add(r[0], r[1])
	}
	for _, t := range cmd.Tasks {
		c.input.reserve(t.ID)
		c.admit(t)
	}
	c.input.reserve(uint64(cmd.N))
	reply.Room, reply.Last = c.roomToAdd(), c.input.lastID.Load()
	return reply
}

// resume ends a pause. If Config.Halt caused the pause, it counts from zero again.
func (c *Core) resume() {
	if c.queue.halted {
		c.end.haltBase = c.end.haltCount
	}
	c.queue.paused, c.queue.halted = false, false
	for _, id := range c.ids(delayed) {
		c.queue.delay(c.entries[id], c.entries[id].due)
	}
}

// stopReading stops reading; admitted tasks still run.
func (c *Core) stopReading() {
	if c.input.over() {
		return
	}
	c.stopInput()
	if !c.input.ended {
		c.end.setReason(Requested, nil, nil)
	}
	c.output.notice("draining: nothing more is read; tasks read so far still run")
}

// cancelAll cancels the tasks that cmd names, and returns the IDs of the tasks that had not ended.
func (c *Core) cancelAll(cmd task.Command) (ids []uint64, err error) {
	named := slices.Compact(slices.Sorted(slices.Values(c.named(cmd))))
	if len(named) == 0 && !cmd.All {
		return nil, fmt.Errorf("no task of key %q runs or waits", cmd.Key)
	}
	for _, id := range slices.Backward(named) { // followers first; otherwise they would end as not run
		e, gone := c.unfinished(id)
		if gone == nil {
			c.cancel(e, cmp.Or(cmd.Err, task.ErrCancelled), cmd.Kill)
			ids = append(ids, id)
		} else if len(cmd.IDs) > 0 {
			err = cmp.Or(err, gone)
		}
	}
	if cmd.Err != nil && len(ids) > 0 {
		c.output.notice(task.Count(int64(len(ids)), "task") + " " + cmd.Err.Error())
	}
	slices.Sort(ids)
	return ids, err
}

func noTask(id uint64) error { return fmt.Errorf("there is no task %d", id) }

// snapshot describes the present state of the run.
func (c *Core) snapshot() *task.Snapshot {
	s := &task.Snapshot{At: c.now, State: c.state(), Stats: c.output.stats, Blocking: c.blocking()}
	for _, at := range c.pool.slots {
		if at.current != nil {
			s.Slots = append(s.Slots, *at.current)
		}
	}
	for _, id := range c.holders() {
		s.Tasks = append(s.Tasks, c.entries[id].describe(c.run))
	}
	slices.SortStableFunc(s.Tasks, func(a, b task.Where) int { return a.Worker - b.Worker })
	s.Waiting = c.waitingGroups()
	s.Queued, s.Buffer = c.queue.readAhead(), c.buffer()
	s.Aside, _ = c.queue.aside()
	s.Edits = c.queue.edits
	return s
}

// refusals say why a state refuses a command.
var refusals = [task.StateDone + 1]string{
	task.StateFinishing: "this run drains: it takes no more tasks",
	task.StateDraining:  "this run drains: nothing more starts",
	task.StateStopping:  "this run stops: its tasks are being ended",
	task.StateDone:      "this run is done: only its results are still being shown",
}

// refusal returns why cmd is not carried out now, or nil. A command from a signal is never refused.
func (c *Core) refusal(cmd task.Command) error {
	state := c.state()
	if state == task.StatePaused && c.input.stopped && cmd.Op == task.Add {
		state = task.StateFinishing
	}
	last := task.StateDone // the last state that allows cmd, as in the table of the man page
	switch cmd.Op {
	case task.Add:
		last = task.StatePaused
	case task.StopReading, task.Resize, task.Grow, task.Pause, task.Resume, task.Retry, task.Hold, task.Release, task.Move:
		last = task.StateFinishing
	case task.Drain:
		last = task.StateDraining
	case task.Cancel:
		last = task.StateStopping
	}
	if state <= last || cmd.Signal != 0 {
		return nil
	}
	return errors.New(refusals[state])
}

func (c *Core) state() task.State {
	switch {
	case c.end.sealed:
		return task.StateDone
	case c.end.phase >= stopping:
		return task.StateStopping
	case c.end.phase == draining:
		return task.StateDraining
	case c.paused():
		return task.StatePaused
	case c.input.stopped:
		return task.StateFinishing
	}
	return task.StateRunning
}
