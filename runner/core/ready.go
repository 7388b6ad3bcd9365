package core

import (
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"slices"

	"crew/runner/task"
)

// A task is ready once the tasks that it comes after (task.Task.After) have succeeded; if
// one of them ends otherwise, it ends as start-failed. A task that makes files also comes
// after the one before it of its key, however that ends, under a policy that runs these one
// at a time: what that one makes may be what this one reads. When it is ready, it is checked
// whether it has to run at all, and only then it is queued.

// makers tells the unfinished tasks that make files apart.
type makers struct {
	seeds   [2]maphash.Seed
	targets map[[2]uint64]struct{} // hashes of what is made: by unfinished tasks or, unless the run is fed, by any
	last    map[uint64]uint64      // under a serial policy, by key: the last one
}

func newMakers() makers {
	return makers{
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		targets: map[[2]uint64]struct{}{}, last: map[uint64]uint64{},
	}
}

// hash returns 128 bits that stand for a target of t.
func (m *makers) hash(t *task.Task, target string) [2]uint64 {
	name := filepath.Clean(t.PathIn("", target))
	return [2]uint64{maphash.String(m.seeds[0], name), maphash.String(m.seeds[1], name)}
}

// claim notes what t makes. The error is that another task makes a part of it.
func (m *makers) claim(t *task.Task) error {
	for i, target := range t.Makes.Targets {
		h := m.hash(t, target.Path)
		if _, taken := m.targets[h]; taken {
			for _, mine := range t.Makes.Targets[:i] {
				delete(m.targets, m.hash(t, mine.Path))
			}
			return errors.New("another task makes " + target.Path + ", too: give each task a target of its own")
		}
		m.targets[h] = struct{}{}
	}
	return nil
}

// release undoes claim.
func (m *makers) release(t *task.Task) {
	for _, target := range t.Makes.Targets {
		delete(m.targets, m.hash(t, target.Path))
	}
}

// holds reports whether a task has to wait for others. The error is that it waits in vain,
// or makes what another one makes.
func (q *queue) holds(e *entry) (bool, error) {
	for _, id := range e.task.After {
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
	e.claimed = true
	if q.policy.Serial() {
		if before := q.makers.last[e.item.Key]; before > 0 {
			q.follow(e, before)
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

// unclaim lets other tasks make what one that has ended was to make, and tells those of its
// key that nothing precedes them.
func (c *Core) unclaim(e *entry) {
	m := &c.queue.makers
	if !e.claimed {
		return
	}
	if m.last[e.item.Key] == e.item.ID {
		delete(m.last, e.item.Key)
	}
	if c.cfg.Feed.Open {
		m.release(e.task)
		e.claimed = false
	}
}

// goOn tells the tasks that come after one how that has ended.
func (c *Core) goOn(t *task.Task, o task.Outcome) {
	q := &c.queue
	if len(q.after) == 0 {
		return
	}
	waiting := q.waiting(t.ID)
	delete(q.after, t.ID)
	for _, e := range waiting {
		if o.Succeeded() || !slices.Contains(e.task.After, t.ID) {
			if e.awaits--; e.awaits == 0 && c.end.phase == going { // otherwise it ends as not run
				c.ready(e)
			}
		} else if c.end.phase == going && e.state == held {
			c.refuse(e, inVain(t.ID, o))
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

// Checked takes the result of a task that has been checked, which is on record. It is nil
// if the task has to run.
func (c *Core) Checked(t *task.Task, r *task.Result) {
	e := c.entries[t.ID]
	switch {
	case e == nil || e.task != t: // it was withdrawn
	case r != nil:
		c.finish(e, r)
	default:
		c.enqueue(e)
	}
}
