package core

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"crew/runner/decide/task"
	"crew/sched"
)

// A task first waits for the tasks that it comes after (task.Terms.After) to succeed; if one
// of them ends otherwise, or its end is forgotten, it is not run. Then the task waits until it
// is released, if it is held, and for its time. At last it is checked, if it makes files, and
// queued unless it is up to date. Under a policy that runs the tasks of a key one at a time, one that
// makes files is queued at first, and waits for all that when it is its turn: what the one before it
// makes may be what it reads.

// makers tells the unfinished tasks that make files apart: by hash of a target, the task that makes
// it, also a finished one unless the run is fed.
type makers map[uint64]uint64

// targetHash returns a number that stands for a target of t, however it is spelled. That two of a million
// targets have the same one has a probability of 3e-8.
func targetHash(t *task.Task, target task.Target) uint64 {
	return sched.Hash(cmp.Or(target.Real, filepath.Clean(t.PathIn("", target.Path))))
}

// claim notes what t makes. The error is that another task makes a part of it.
func (m makers) claim(t *task.Task) error {
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
	if t.Makes == nil {
		return
	}
	for _, target := range t.Makes.Targets {
		if h := targetHash(t, target); m[h] == t.ID {
			delete(m, h)
		}
	}
}

// addDependencies notes for which tasks one has to wait. It returns why it is not to run, if one of them did not
// succeed.
func (q *queue) addDependencies(e *entry) (why error) {
	for _, id := range e.task.Terms().After {
		before := q.entries[id]
		switch was, ok := q.failed.tasks[id]; {
		case before != nil:
			before.followers = append(before.followers, e.item.ID)
			e.awaits++
		case ok:
			return notSucceeded(was.task, was.outcome, was.code)
		case !q.succeeded.Has(id):
			return fmt.Errorf("task %d, which it comes after, failed or is forgotten", id)
		}
	}
	return nil
}

// notSucceeded returns the error of a task that comes after t, which ended otherwise. Of one that an
// earlier run has finished the code is unknown, 0.
func notSucceeded(t *task.Task, o task.Outcome, code int) error {
	name, how := "", o.String()
	if t.Terms().Name != "" {
		name = " (" + t.Terms().Name + ")"
	}
	if o == task.Exit && code != 0 {
		how = fmt.Sprintf("exit %d", code)
	}
	return fmt.Errorf("task %d%s, which it comes after, did not succeed: %s", t.ID, name, how)
}

// notifyFollowers tells the tasks that come after one how that has ended.
func (c *Core) notifyFollowers(e *entry, r *task.Result) {
	q, id, t, o := &c.queue, e.item.ID, e.task, r.Outcome
	if q.succeeded != nil && o.Succeeded() {
		q.succeeded.Add(id, id)
	}
	if c.cfg.Feed.Open {
		q.makers.release(t)
	}
	if c.end.phase > going { // they end as not run
		return
	}
	for _, id2 := range e.followers {
		next := c.entries[id2]
		switch {
		case next == nil: // it has ended
		case !o.Succeeded():
			c.skip(next, notSucceeded(t, o, r.Code))
		default:
			if next.awaits--; next.awaits == 0 && next.state == following {
				c.schedule(next)
			}
		}
	}
}

// skip ends a task that comes after one that did not succeed, and then those that come
// after that, one after another: they may be many.
func (c *Core) skip(e *entry, why error) {
	c.skipping = append(c.skipping, skippedTask{e.item.ID, why})
	if len(c.skipping) > 1 {
		return // the first one goes on with it
	}
	for i := 0; i < len(c.skipping); i++ {
		if e := c.entries[c.skipping[i].id]; e != nil {
			r := e.endResult(task.NotRun, c.skipping[i].why, c.now)
			r.Final = true
			c.queue.remove(e) // it may have gone on meanwhile
			c.finish(e, r)
		}
	}
	c.skipping = nil
}

// skippedTask is a task that is not run, and why.
type skippedTask struct {
	id  uint64
	why error
}

// schedule has a task wait for whatever it has to wait for, or queues it, or refuses it if the policy has no
// slot that would ever take it.
func (c *Core) schedule(e *entry) {
	if (!c.waitsForTurn(e.task) || e.hasTurn) && c.mustWait(e) {
		return
	}
	if !c.queue.push(e) {
		c.refuse(e, fmt.Errorf("no worker takes key %q: give it a topic, or add '*=N' to --topics", e.task.Key))
	}
}

// waitsForTurn reports whether a task waits for its turn before all else.
func (c *Core) waitsForTurn(t *task.Task) bool { return t.Makes != nil && c.queue.ready.Serial() }

// mustWait has a task wait for what it has to wait for, and reports whether there is something.
func (c *Core) mustWait(e *entry) bool {
	q, terms := &c.queue, e.task.Asked
	switch {
	case e.awaits > 0:
		q.setState(e, following)
	case terms != nil && terms.Held:
		q.setState(e, held)
	case terms != nil && terms.At.After(c.now):
		q.setState(e, timed)
		q.due.Push(e.item.ID, c.run.Add(min(terms.At.Sub(c.now), clockCheckEvery)))
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

// Checked takes the result of a task that has been checked. It is nil if the task has to run.
func (c *Core) Checked(t *task.Task, r *task.Result) {
	e := c.entries[t.ID]
	if e == nil || e.state != checking { // it was withdrawn
		return
	}
	if r == nil {
		e.checked = true
		c.schedule(e)
		return
	}
	c.queue.remove(e)
	switch {
	case r.Known():
		c.finish(e, r)
		c.checkHalt(nil) // as in admit
	case r.Earlier:
		c.finish(e, r)
	default:
		c.recordEnd(e, r)
	}
}
