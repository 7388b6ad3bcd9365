package core

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"slices"
	"time"

	"crew/runner/task"
)

// A task first waits for the tasks that it comes after (task.Terms.After) to succeed; if one
// of them ends otherwise, or its end is forgotten, it is not run. A task that makes files also
// comes after the one before it of its key, however that ends, under a policy that runs these
// one at a time: what that one makes may be what this one reads. Then the task waits until it
// is released, if it is held, and for its time. At last it is checked, if it makes files, and
// queued unless it is up to date.

// makers tells the unfinished tasks that make files apart.
type makers struct {
	seed    maphash.Seed
	targets map[uint64]uint64 // by hash of a target: the task that makes it, also a finished one unless the run is fed
	last    map[uint64]uint64 // under a serial policy, by key: the last unfinished one
}

func newMakers() makers {
	return makers{seed: maphash.MakeSeed(), targets: map[uint64]uint64{}, last: map[uint64]uint64{}}
}

// hash returns a number that stands for a target of t, however it is spelled. That two of a million targets have
// the same one has a probability of 3e-8.
func (m *makers) hash(t *task.Task, target task.Target) uint64 {
	return maphash.String(m.seed, cmp.Or(target.Real, filepath.Clean(t.PathIn("", target.Path))))
}

// claim notes what t makes. The error is that another task makes a part of it.
func (m *makers) claim(t *task.Task) error {
	if t.Makes == nil {
		return nil
	}
	for _, target := range t.Makes.Targets {
		h := m.hash(t, target)
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
		if h := m.hash(t, target); m.targets[h] == t.ID {
			delete(m.targets, h)
		}
	}
}

// depend notes for which tasks one has to wait. The error is a notSucceeded, or that it makes what
// another one makes.
func (q *queue) depend(e *entry) error {
	for _, id := range e.task.Terms().After {
		switch was, ok := q.memory.tasks[id]; {
		case q.entries[id] != nil:
			q.follow(e, id)
		case ok:
			return &notSucceeded{id, was.task, ended(was.outcome, was.code)}
		case !q.succeeded.Has(id):
			return &notSucceeded{id: id}
		}
	}
	if e.task.Makes == nil {
		return nil
	}
	if err := q.makers.claim(e.task); err != nil {
		return err
	}
	if q.ready.Serial() {
		if e.behind = q.makers.last[e.item.Key]; e.behind > 0 {
			q.follow(e, e.behind)
		}
		q.makers.last[e.item.Key] = e.item.ID
	}
	return nil
}

// follow has a task wait for another one.
func (q *queue) follow(e *entry, id uint64) {
	q.after[id] = append(q.after[id], e.item.ID)
	e.awaits++
}

// notSucceeded is the error of a task that comes after one that did not succeed.
type notSucceeded struct {
	id   uint64
	task *task.Task // that one; nil if it is forgotten
	how  string     // it ended
}

func (n *notSucceeded) Error() string {
	text := fmt.Sprintf("task %d, which it comes after, failed or is forgotten", n.id)
	if n.task == nil {
		return text
	}
	name := ""
	if n.task.Terms().Name != "" {
		name = " (" + n.task.Terms().Name + ")"
	}
	return fmt.Sprintf("task %d%s, which it comes after, did not succeed: %s", n.id, name, n.how)
}

// ended says how a task ended. Of one that an earlier run has finished the code is unknown, 0.
func ended(o task.Outcome, code int) string {
	if o == task.Exit && code != 0 {
		return fmt.Sprintf("exit %d", code)
	}
	return o.String()
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
func (c *Core) goOn(e *entry, r *task.Result) {
	q, id, t, o, behind := &c.queue, e.item.ID, e.task, r.Outcome, uint64(0)
	if q.succeeded != nil && o.Succeeded() {
		q.succeeded.Add(id, id)
	}
	if t.Makes != nil {
		behind = q.leave(e, c.cfg.Feed.Open)
	}
	waiting := q.after[id]
	delete(q.after, id)
	if c.end.phase > going { // they end as not run
		return
	}
	for _, id2 := range waiting {
		next := c.entries[id2]
		switch {
		case next == nil || next.state != following: // it has ended
		case !o.Succeeded() && slices.Contains(next.task.Terms().After, id):
			c.forgo(next, &notSucceeded{id, t, ended(o, r.Code)})
		case next.behind == id && behind > 0:
			next.behind = behind
			q.after[behind] = append(q.after[behind], id2)
		default:
			if next.awaits--; next.awaits == 0 {
				c.place(next)
			}
		}
	}
}

// forgo ends a task that comes after one that did not succeed, and then those that come
// after that, one after another: they may be many.
func (c *Core) forgo(e *entry, why error) {
	c.forgone = append(c.forgone, forgone{e.item.ID, why})
	if len(c.forgone) > 1 {
		return // the first one goes on with it
	}
	for i := 0; i < len(c.forgone); i++ {
		if e := c.entries[c.forgone[i].id]; e != nil {
			r := e.end(task.NotRun, c.forgone[i].why, c.now)
			r.Final = true
			c.queue.withdraw(e) // it may have gone on meanwhile
			c.finish(e, r)
		}
	}
	c.forgone = nil
}

// forgone is a task that is not run, and why.
type forgone struct {
	id  uint64
	why error
}

// place has a task wait for whatever it has to wait for, or queues it.
func (c *Core) place(e *entry) {
	q, terms := &c.queue, e.task.Asked
	switch {
	case e.awaits > 0:
		q.set(e, following)
	case terms != nil && terms.Held:
		q.set(e, held)
	case terms != nil && terms.At.After(c.now):
		q.set(e, timed)
		q.later.Push(e.item.ID, earlier(terms.At, c.now.Add(farthest)))
	case c.run.Before(e.due):
		q.delay(e, e.due)
	case e.task.Makes != nil && !e.checked:
		q.set(e, checking)
		c.fx.Checks = append(c.fx.Checks, e.task)
	default:
		c.enqueue(e)
	}
}

// farthest is how far ahead the core looks: differences of more than 292 years do not fit into
// a time.Duration.
const farthest = 100 * 365 * 24 * time.Hour

// Checked takes the result of a task that has been checked. It is nil if the task has to run.
func (c *Core) Checked(t *task.Task, r *task.Result) {
	e := c.entries[t.ID]
	switch {
	case e == nil || e.state != checking: // it was withdrawn
	case r == nil:
		e.checked = true
		c.place(e)
	case r.Known():
		c.finish(e, r)
		c.halt(nil) // as in admit
	case r.Earlier:
		c.finish(e, r)
	default:
		c.settle(e, r)
	}
}
