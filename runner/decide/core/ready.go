package core

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"crew/runner/decide/task"
	"crew/sched"
)

// A task is queued when nothing holds it back any more. First, the tasks that it comes after
// (task.Terms.After) must succeed; if one of them does not, or its end is forgotten, the task is
// not run. Others (AfterAny) must end, in any way. Then a held task waits for its release, and a timed one for its time. Last, a task that
// makes files is checked, and not queued if it is up to date.
//
// Under a serial policy, a task that makes files is queued first and does all this when its turn
// comes, since it may read the files of the task before it.

// makers maps the hash of each target to the ID of the task that makes it, so that two tasks with
// the same target are noticed, and likewise task.Terms.Unique. A fed run removes finished tasks.
type makers map[uint64]uint64

// targetHash returns a hash of a target of t that does not depend on how the target is spelled. The
// probability that two of a million targets share a hash is 3e-8.
func targetHash(t *task.Task, target task.Target) uint64 {
	return sched.Hash(cmp.Or(target.Real, filepath.Clean(t.PathIn("", target.Path))))
}

// claim notes the targets of t. It fails if another task makes the same file, or is the same.
func (m makers) claim(t *task.Task) error {
	if t.Asked != nil && t.Asked.Unique != 0 {
		if by := m[t.Asked.Unique]; by > 0 {
			return fmt.Errorf("task %d is the same, and waits or runs", by)
		}
		m[t.Asked.Unique] = t.ID
	}
	if t.Makes == nil {
		return nil
	}
	for _, target := range t.Makes.Targets {
		h := targetHash(t, target)
		if by, taken := m[h]; taken && by != t.ID {
			m.release(t)
			return errors.New("another task makes " + target.Path + ", too: give each task a target of its own")
		}
		m[h] = t.ID
	}
	return nil
}

// release undoes claim.
func (m makers) release(t *task.Task) {
	if t.Asked != nil && m[t.Asked.Unique] == t.ID {
		delete(m, t.Asked.Unique)
	}
	if t.Makes == nil {
		return
	}
	for _, target := range t.Makes.Targets {
		if h := targetHash(t, target); m[h] == t.ID {
			delete(m, h)
		}
	}
}

// addDependencies notes which tasks e has to wait for. It returns why e is not run if a task before
// it did not succeed.
func (q *queue) addDependencies(e *entry) (why error) {
	terms := e.task.Terms()
	for _, id := range terms.Awaited() {
		before := q.entries[id]
		switch was, ok := q.failed.tasks[id]; {
		case before != nil:
			before.followers = append(before.followers, e.item.ID)
			e.awaits++
		case !slices.Contains(terms.After, id):
		case ok:
			return notSucceeded(was.task, was.outcome, was.code)
		case !q.succeeded.Has(id):
			return fmt.Errorf("task %d, which it comes after, failed or is forgotten", id)
		}
	}
	return nil
}

// notSucceeded returns the error of a task that comes after t, which did not succeed. code is 0,
// for unknown, if an earlier run finished t.
func notSucceeded(t *task.Task, o task.Outcome, code int) error {
	name, how := "", o.String()
	if t.Terms().Name != "" {
		name = " (" + string(t.Terms().Name) + ")"
	}
	if o == task.Exit && code != 0 {
		how = fmt.Sprintf("exit %d", code)
	}
	return fmt.Errorf("task %d%s, which it comes after, did not succeed: %s", t.ID, name, how)
}

// notifyFollowers tells the tasks that come after e how it ended.
func (c *Core) notifyFollowers(e *entry, r *task.Result) {
	q, id, t, o := &c.queue, e.item.ID, e.task, r.Outcome
	if q.succeeded != nil && o.Succeeded() {
		q.succeeded.Add(id, id)
	}
	if c.cfg.Feed.Open {
		q.makers.release(t)
	}
	if c.end.phase > going { // the followers end as not run
		return
	}
	for _, id2 := range e.followers {
		next := c.entries[id2]
		switch {
		case next == nil: // it has ended already
		case !o.Succeeded() && slices.Contains(next.task.Terms().After, id):
			c.skip(next, notSucceeded(t, o, r.Code))
		default:
			if next.awaits--; next.awaits == 0 && next.state == following {
				c.schedule(next)
			}
		}
	}
}

// skip ends a task because a task before it did not succeed, and then the tasks that come after it,
// and so on. It uses a list instead of recursion, since they may be many.
func (c *Core) skip(e *entry, why error) {
	r := e.endResult(task.NotRun, why, c.now)
	r.Final = true
	c.skipping = append(c.skipping, r)
	if len(c.skipping) > 1 {
		return // the outermost call works through the list
	}
	for i := 0; i < len(c.skipping); i++ {
		r := c.skipping[i]
		if e := c.entries[r.Task.ID]; e != nil {
			c.queue.remove(e) // it may wait for something else by now
			c.finish(e, r)
		}
	}
	c.skipping = nil
}

// schedule moves a task to the state in which it has to wait, or queues it if nothing holds it
// back. It refuses the task if the policy has no slot for its key.
func (c *Core) schedule(e *entry) {
	if e.awaits > 0 {
		c.lendRank(e)
	}
	if (!c.waitsForTurn(e.task) || e.hasTurn) && c.mustWait(e) {
		return
	}
	if !c.queue.push(e) {
		c.refuse(e, fmt.Errorf("no worker takes key %q: give it a topic, or add '*=N' to --topics", e.task.Key))
	}
}

// lendRank gives the rank of a task to the unfinished tasks that it comes after, and so on, unless they
// go first anyway or were moved by hand. They keep it even if the task is cancelled (priority inheritance:
// Sha, Rajkumar and Lehoczky, "Priority Inheritance Protocols", 1990).
func (c *Core) lendRank(e *entry) {
	rank := max(e.item.Rank, -maxTurnRank)
	for lenders := []*entry{e}; len(lenders) > 0; { // a list instead of recursion, since they may be many
		awaited := lenders[0].task.Terms().Awaited()
		lenders = lenders[1:]
		for _, id := range awaited {
			before := c.entries[id]
			if before == nil || before.item.Rank <= rank || before.task.Terms().Rank != 0 {
				continue
			}
			if before.state == queued || before.state == parked {
				c.queue.unqueue(before)
				before.item.Rank = rank
				c.queue.push(before)
			}
			before.item.Rank = rank
			lenders = append(lenders, before)
		}
	}
}

// waitsForTurn reports whether a task is queued before it waits for anything else.
func (c *Core) waitsForTurn(t *task.Task) bool { return t.Makes != nil && c.queue.ready.Serial() }

// mustWait moves a task to a waiting state if something holds it back, and reports whether it did.
func (c *Core) mustWait(e *entry) bool {
	q, terms := &c.queue, e.task.Asked
	switch {
	case e.awaits > 0:
		q.setState(e, following)
	case terms != nil && terms.Held:
		q.setState(e, held)
	case terms != nil && terms.At.After(c.now):
		q.setState(e, timed)
		q.due.Push(&e.timer, c.run.Add(min(terms.At.Sub(c.now), clockCheckEvery)))
	case c.run.Before(e.due):
		q.delay(e, e.due)
	case e.task.Makes != nil && !e.checked:
		q.setState(e, checking)
		c.fx.Checks = append(c.fx.Checks, e.task)
	default:
		return false
	}
	return true
}

// Checked takes the result of a check that Effects.Checks asked for. It is nil if the task must
// run.
func (c *Core) Checked(t *task.Task, r *task.Result) {
	e := c.entries[t.ID]
	if e == nil || e.state != checking { // it was cancelled
		return
	}
	if r == nil {
		e.checked = true
		c.schedule(e)
		return
	}
	c.queue.remove(e)
	if !r.Earlier && !r.FromEarlierRun() {
		c.recordEnd(e, r)
		return
	}
	c.finish(e, r)
	c.checkHalt(nil) // as in admit
}
