package runner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
	"crew/sched"
)

var errOver = errors.New("the run is over")

// apply carries out a command.
func (c *core) apply(cmd task.Command) (reply task.Reply) {
	if err := c.refusal(cmd); err != nil {
		return task.Reply{Err: err}
	}
	switch cmd.Op {
	case task.Drain, task.Stop, task.Kill:
		c.told(cmd)
	case task.Fail:
		if c.phase == going && !c.sealed {
			c.abort(cmd.Err)
		}
	case task.Rest:
		c.restAfter()
	case task.Resize:
		reply.Err = c.resizeTo(cmd.N)
	case task.Grow:
		reply.Err = c.resizeTo(len(c.own()) + cmd.N)
	case task.Join:
		reply.Slots = c.join(cmd.Slot, max(cmd.N, 1))
	case task.Leave:
		if cmd.N > 0 && cmd.N < len(c.slots) && c.slots[cmd.N] != nil {
			c.leave(cmd.N)
		} else {
			reply.Err = fmt.Errorf("there is no worker %d", cmd.N)
		}
	case task.Pause, task.Resume:
		c.paused = cmd.Op == task.Pause
	case task.Suspend:
		c.clock.stop(c.now)
	case task.Continue:
		if lost := c.clock.start(c.now); lost > 0 {
			c.tick(c.now)
			c.emit(task.Event{Kind: task.Continued, Wait: lost})
		}
	case task.Add:
		c.fed = true
		if cmd.N == 0 && len(cmd.Tasks) > c.mayAdd() {
			reply.Err = task.ErrFull
		} else {
			reply.Err = c.add(cmd.Tasks)
			c.skip(uint64(cmd.N))
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

// mayAdd returns how many tasks there is room for. Those that idle slots can take at
// once need none.
func (c *core) mayAdd() int {
	most := c.cfg.Feed.MaxQueued
	if most == 0 {
		return math.MaxInt
	}
	free := 0
	if c.phase == going && !c.paused {
		free = max(0, c.capacity-c.running)
	}
	return max(0, most+free-c.waits())
}

// cancelAll cancels the tasks that a command names, and returns those that it could
// cancel.
func (c *core) cancelAll(cmd task.Command) (ids []uint64, err error) {
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
		case c.cancel(id, cmd.Kill):
			ids = append(ids, id)
		case c.exists(id):
			err = cmp.Or(err, fmt.Errorf("task %d has ended", id))
		default:
			err = cmp.Or(err, noTask(id))
		}
	}
	return ids, err
}

// restAfter has the run take no more tasks and run those that it has.
func (c *core) restAfter() {
	if c.readAll() {
		return
	}
	c.endFeed()
	c.rest = true
	if !c.inputEnd {
		c.ends(Told, nil, nil)
	}
	c.emit(task.Event{Kind: task.Notice, Text: "draining: nothing more is read; what was read still runs"})
}

// told ends the run because a command asks for it.
func (c *core) told(cmd task.Command) {
	again := c.phase == draining && c.ending.Reason < Told // for another reason
	c.ends(Told, nil, nil)
	c.unreadAt = time.Time{}
	if cmd.Signal != 0 {
		c.ending.Signal = cmd.Signal
	}
	why := unix.SignalName(syscall.Signal(cmd.Signal)) // "" for none
	switch cmd.Op {
	case task.Drain:
		if again {
			c.enter(draining, task.Draining, why)
		}
		c.drain(why)
	case task.Stop:
		c.stop(why)
		c.wait(c.cfg.Limit.KillAfter + margin)
	case task.Kill:
		c.kill(why)
		c.giveUpAt = c.run.Add(margin)
		if c.sealed {
			c.giveUp()
		}
	}
}

var errRemote = errors.New("its workers are on other machines: start or end crew worker there")

// resizeTo is resize where the run has slots of its own.
func (c *core) resizeTo(n int) error {
	if c.cfg.Pool.Remote {
		return errRemote
	}
	c.resize(n)
	return nil
}

// resize sets the number of this machine's own slots, at least 1. The highest
// numbers leave first; attempts running there may finish.
func (c *core) resize(n int) {
	own := c.own()
	n = max(n, 1)
	if n > len(own) {
		c.join(task.Slot{Cap: c.cfg.Pool.Window}, n-len(own))
	} else if n < len(own) {
		c.leave(own[n:]...)
	}
}

// own returns the numbers of this machine's own slots, sorted.
func (c *core) own() []int {
	var ids []int
	for id, s := range c.slots {
		if s != nil && s.Host == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// join adds n slots like s under the lowest free numbers, which it returns. A
// number that has left is not given to another host while an attempt still runs
// under it.
func (c *core) join(s task.Slot, n int) (ids []int) {
	s.Cap, s.Host = max(s.Cap, 1), task.HostName(s.Host)
	slot := sched.Slot{Cap: s.Cap}
	if s.Host != "" {
		slot.Host = sched.Place(s.Host)
	}
	for _, l := range s.Labels {
		slot.Labels = append(slot.Labels, sched.Hash(l))
	}
	foreign := map[int]bool{}
	for e := range c.holding {
		if e.slot.Host != s.Host {
			foreign[e.slot.ID] = true
		}
	}
	for s.ID = 1; n > 0; s.ID++ {
		for s.ID >= len(c.slots) {
			c.slots = append(c.slots, nil)
		}
		if c.slots[s.ID] != nil || foreign[s.ID] {
			continue
		}
		added := s
		c.slots[s.ID] = &added
		c.capacity += s.Cap
		slot.ID = s.ID
		c.policy.Join(slot)
		ids = append(ids, s.ID)
		n--
	}
	c.resized()
	return ids
}

// leave removes slots. Attempts running there may finish.
func (c *core) leave(ids ...int) {
	for _, id := range ids {
		c.capacity -= c.slots[id].Cap
		c.slots[id] = nil
		c.policy.Leave(id)
	}
	c.resized()
}

func (c *core) resized() {
	c.resizes++
	n := 0
	for _, s := range c.slots {
		if s != nil {
			n++
		}
	}
	c.emit(task.Event{Kind: task.Resized, Slot: n})
}

// snapshot describes what the run does now.
func (c *core) snapshot() *task.Snapshot {
	s := &task.Snapshot{At: c.now, State: c.state(), Stats: c.stats, Blocking: c.blocking()}
	for _, slot := range c.slots {
		if slot != nil {
			s.Slots = append(s.Slots, *slot)
		}
	}
	for _, id := range c.runningIDs(len(c.entries)) {
		s.Running = append(s.Running, *c.entries[id].running())
	}
	slices.SortStableFunc(s.Running, func(a, b task.Running) int { return a.Slot - b.Slot })
	s.Waiting = c.waiting()
	s.Queued, s.Buffer, s.Aside = c.count[queued], c.buffer(), c.aside()
	return s
}

// running describes the attempt of a task that holds a slot.
func (e *entry) running() *task.Running {
	return &task.Running{Task: e.task, Slot: e.slot.ID, Host: e.slot.Host, Attempt: e.attempt, Since: e.since}
}
