package core

import (
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"slices"

	"crew/runner/task"
)

// A task is ready once the tasks that it comes after (task.Terms.After) have succeeded; if
// one of them ends otherwise, it ends as start-failed. A task that makes files also comes
// after the one before it of its key, however that ends, under a policy that runs these one
// at a time: what that one makes may be what this one reads. Once it is ready, it is checked,
// and queued only if it is not up to date.

// makers tells the unfinished tasks that make files apart.
type makers struct {
	seed    maphash.Seed
	targets map[uint64]uint64 // by hash of a target: the task that makes it, also a finished one unless the run is fed
	last    map[uint64]uint64 // under a serial policy, by key: the last unfinished one
}

func newMakers() makers {
	return makers{seed: maphash.MakeSeed(), targets: map[uint64]uint64{}, last: map[uint64]uint64{}}
}

// hash returns a number that stands for a target of t. That two of a million targets have
// the same one has a probability of 3e-8.
func (m *makers) hash(t *task.Task, target string) uint64 {
	return maphash.String(m.seed, filepath.Clean(t.PathIn("", target)))
}

// claim notes what t makes. The error is that another task makes a part of it.
func (m *makers) claim(t *task.Task) error {
	for _, target := range t.Makes.Targets {
		h := m.hash(t, target.Path)
		if by, taken := m.targets[h]; taken && by != t.ID {
			m.release(t)
			return errors.New("another task makes " + target.Path + ", too: give each task a target of its own")
		}
		m.targets[h] = t.ID
	}
	return nil
}

// release undoes claim.
func (m *makers) release(t *task.Task) {
	if t.Makes == nil {
		return
	}
	for _, target := range t.Makes.Targets {
		if h := m.hash(t, target.Path); m.targets[h] == t.ID {
			delete(m.targets, h)
		}
	}
}

// holds reports whether a task has to wait for others. The error is that it waits in vain,
// or makes what another one makes.
func (q *queue) holds(e *entry) (bool, error) {
	for _, id := range e.task.Terms().After {
		if q.entries[id] != nil {
			q.follow(e, id)
		} else if was, ok := q.memory.tasks[id]; ok {
			return false, inVain(id, was.outcome)
		}
	}
	if e.task.Makes == nil {
		return e.awaits > 0, nil
	}
	if err := q.makers.claim(e.task); err != nil {
		return false, err
	}
	if q.policy.Serial() {
		if e.behind = q.makers.last[e.item.Key]; e.behind > 0 {
			q.follow(e, e.behind)
		}
		q.makers.last[e.item.Key] = e.item.ID
	}
	return e.awaits > 0, nil
}

// follow has a task wait for another one.
func (q *queue) follow(e *entry, id uint64) {
	q.after[id] = append(q.after[id], e.item.ID)
	e.awaits++
}

func inVain(id uint64, o task.Outcome) error {
	return fmt.Errorf("task %d, which it comes after, did not succeed: %v", id, o)
}

// waiting returns the tasks that wait for one to end.
func (q *queue) waiting(id uint64) (list []*entry) {
	for _, id2 := range q.after[id] {
		if e := q.entries[id2]; e != nil && e.state == held {
			list = append(list, e)
		}
	}
	return list
}

// leave forgets a finished task that makes files. It returns the task before it of its key
// if that is unfinished, as it is when a task ends before it was ready.
func (q *queue) leave(e *entry, fed bool) (behind uint64) {
	if q.entries[e.behind] != nil {
		behind = e.behind
	}
	if last := q.makers.last; last[e.item.Key] == e.item.ID {
		if last[e.item.Key] = behind; behind == 0 {
			delete(last, e.item.Key)
		}
	}
	if fed {
		q.makers.release(e.task)
	}
	return behind
}

// goOn tells the tasks that come after one how that has ended.
func (c *Core) goOn(e *entry, o task.Outcome) {
	q, id, behind := &c.queue, e.item.ID, uint64(0)
	if e.task.Makes != nil {
		behind = q.leave(e, c.cfg.Feed.Open)
	}
	if len(q.after) == 0 {
		return
	}
	waiting := q.waiting(id)
	delete(q.after, id)
	if c.end.phase > going { // they end as not run
		return
	}
	for _, next := range waiting {
		switch {
		case next.state != held: // it is refused
		case !o.Succeeded() && slices.Contains(next.task.Terms().After, id):
			c.refuse(next, inVain(id, o))
		case next.behind == id && behind > 0:
			next.behind = behind
			q.after[behind] = append(q.after[behind], next.item.ID)
		default:
			if next.awaits--; next.awaits == 0 {
				c.ready(next)
			}
		}
	}
}

// ready has a task checked or queued.
func (c *Core) ready(e *entry) {
	if e.task.Makes == nil {
		c.enqueue(e)
		return
	}
	c.queue.set(e, checking)
	c.fx.Checks = append(c.fx.Checks, e.task)
}

// Checked takes the result of a task that has been checked. It is nil if the task has to run.
func (c *Core) Checked(t *task.Task, r *task.Result) {
	e := c.entries[t.ID]
	switch {
	case e == nil || e.state != checking: // it was withdrawn
	case r == nil:
		c.enqueue(e)
	case r.Known():
		c.finish(e, r)
		c.halt(nil) // as in admit
	case r.Earlier:
		c.finish(e, r)
	default:
		c.settle(e, r)
	}
}
