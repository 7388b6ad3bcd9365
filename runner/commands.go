package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"crew/runner/task"
	"crew/sched"
)

var errOver = errors.New("the run is over")

// apply does what a command asks for.
func (c *core) apply(cmd task.Command) (reply task.Reply) {
	switch cmd.Op {
	case task.Drain, task.Stop, task.Kill:
		c.told(cmd)
	case task.Resize:
		c.resize(cmd.N)
	case task.Grow:
		c.resize(len(c.local()) + cmd.N)
	case task.Join:
		reply.Slot = c.join(cmd.Slot)
		c.emit(task.Event{Kind: task.Resized, Slot: len(c.slots)})
	case task.Leave:
		if _, ok := c.slots[cmd.N]; !ok {
			reply.Err = fmt.Errorf("there is no worker %d", cmd.N)
			break
		}
		c.leave(cmd.N)
		c.emit(task.Event{Kind: task.Resized, Slot: len(c.slots)})
	case task.Pause:
		c.paused = true
	case task.Resume:
		c.paused = false
	case task.Suspend:
		c.clock.stop(c.now)
	case task.Continue:
		c.clock.goOn(c.now)
		c.tick(c.now)
	case task.Cancel:
		if !c.cancel(cmd.ID) {
			reply.Err = fmt.Errorf("task %d does not run and does not wait", cmd.ID)
		}
	case task.Look:
		reply.Snapshot = c.snapshot()
	}
	return reply
}

// told ends the run because a person or a program asks for it.
func (c *core) told(cmd task.Command) {
	c.ending.Reason = max(c.ending.Reason, Told)
	if cmd.Signal != 0 {
		c.ending.Signal = cmd.Signal
	}
	why := signalName(cmd.Signal)
	switch cmd.Op {
	case task.Drain:
		c.drain(why)
	case task.Stop:
		c.stop(why)
		c.wait(c.cfg.Limit.KillAfter + settle)
	case task.Kill:
		c.kill(why)
		c.giveUpAt = c.run.Add(settle)
		if c.sealed {
			c.giveUp()
		}
	}
}

// local are the IDs of this machine's own slots, in order.
func (c *core) local() []int {
	var ids []int
	for _, s := range c.slots {
		if s.Host == "" && s.Token == 0 {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// resize sets the number of this machine's own slots, at least 1. Those with the
// highest numbers leave first; what runs there may finish.
func (c *core) resize(n int) {
	n = max(n, 1)
	ids := c.local()
	if len(ids) == n {
		return
	}
	for len(ids) > n {
		c.leave(ids[len(ids)-1])
		ids = ids[:len(ids)-1]
	}
	for range n - len(ids) {
		c.join(task.Slot{Cap: 1})
	}
	c.emit(task.Event{Kind: task.Resized, Slot: len(c.slots)})
}

// join takes in a slot under the lowest number that is free, and not of another
// host as long as something runs there under it.
func (c *core) join(s task.Slot) int {
	foreign := map[int]bool{}
	for _, e := range c.entries {
		if e.slot.ID != 0 && e.slot.Host != s.Host {
			foreign[e.slot.ID] = true
		}
	}
	for s.ID = 1; foreign[s.ID]; s.ID++ {
	}
	for _, taken := c.slots[s.ID]; taken || foreign[s.ID]; _, taken = c.slots[s.ID] {
		s.ID++
	}
	s.Cap = max(s.Cap, 1)
	c.slots[s.ID] = s
	c.capacity += s.Cap
	slot := sched.Slot{ID: s.ID, Cap: s.Cap}
	if s.Host != "" {
		slot.Host = sched.Hash(s.Host)
	}
	c.policy.Join(slot)
	return s.ID
}

// leave lets no more attempts start in a slot. Those that run there may finish.
func (c *core) leave(id int) {
	c.capacity -= c.slots[id].Cap
	delete(c.slots, id)
	c.policy.Leave(id)
}

// snapshot is what the run does now.
func (c *core) snapshot() *task.Snapshot {
	s := &task.Snapshot{At: c.now, State: c.state(), Stats: c.stats, Blocking: c.blocking()}
	for _, id := range slices.Sorted(maps.Keys(c.slots)) {
		s.Slots = append(s.Slots, c.slots[id])
	}
	for _, id := range c.runningIDs(len(c.entries)) {
		e := c.entries[id]
		s.Running = append(s.Running, task.Running{
			ID: id, Key: e.task.Key, Slot: e.slot.ID, Attempt: e.attempt, Since: e.since,
		})
	}
	slices.SortStableFunc(s.Running, func(a, b task.Running) int { return a.Slot - b.Slot })
	s.Waiting = c.waiting()
	return s
}

func (c *core) state() task.State {
	switch {
	case c.sealed:
		return task.Finishes
	case c.phase >= stopping:
		return task.Stops
	case c.phase == draining:
		return task.Drains
	case c.paused || c.clock.stopped():
		return task.Paused
	}
	return task.Going
}
