package wiring

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
	"crew/sched"
)

// makeTasks makes the tasks of an addition. It gets another number for each, and the same one again if it
// leaves the task out.
func (f *feed) makeTasks(x *addition, number func() uint64) error {
	here := map[uint64]uint64{} // tasks of x by Unique
	if len(x.Command) > 0 {
		return f.take(x, f.tasks.Command(convert[string](x.Command), number()), here)
	}
	f.tasks.SetValues(convert[string](x.Values))
	for {
		t, err := f.tasks.Next(number)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f.take(x, t, here)
		}
		if err != nil {
			return err
		}
	}
}

// take completes a task of an addition, and adds it there unless one like it is unfinished.
func (f *feed) take(x *addition, t *task.Task, here map[uint64]uint64) error {
	for _, id := range (task.Terms{After: x.After, AfterAny: x.AfterAny}).Awaited() {
		if id == 0 || id >= t.ID {
			return fmt.Errorf("there is no task %d to come after", id)
		}
	}
	applyTerms(t, x.Addition)
	own := x.Dir != "" && !f.opts.TakesValues()
	if own {
		t.Dir = string(x.Dir)
	}
	by := t.Terms().UniqueBy
	if by == nil {
		by = (*string)(x.Unique)
	}
	if by != nil {
		x.before() // the run must know their tasks
		u := uniqueOf(t, *by)
		same := f.do(task.Command{Op: task.Find, Unique: u}).IDs
		x.known = append(x.known, same...)
		if id := here[u]; id != 0 {
			same = []uint64{id}
		}
		if len(same) > 0 {
			x.ids = append(x.ids, same...)
			if t.Terms().Name != "" {
				f.tasks.Names().RemoveAfter(t.ID - 1)
			}
			return nil
		}
		terms := t.Terms()
		here[u], terms.Unique, terms.UniqueBy = t.ID, u, nil
		t.Asked = &terms
	}
	if own {
		t.Env, t.Bare = f.internEnv(x.Env), true
	}
	x.ids, x.tasks = append(x.ids, t.ID), append(x.tasks, t)
	return nil
}

// uniqueOf returns the Terms.Unique of a task: a hash of key or, if that is "", of its work, which is its
// command and directory, but not the environment of the client.
func uniqueOf(t *task.Task, key string) uint64 {
	if key == "" {
		id := journal.IdentityOf(t)
		key = string(id[:])
	}
	return sched.StableHash(key)
}

// applyTerms sets the terms that an addition gives for its tasks.
func applyTerms(t *task.Task, x *control.Addition) {
	if terms := t.Terms(); len(x.After)+len(x.AfterAny) > 0 || !x.At.IsZero() || x.Note != "" || x.Priority != nil {
		terms.After, terms.AfterAny = slices.Concat(terms.After, x.After), slices.Concat(terms.AfterAny, x.AfterAny)
		terms.At, terms.Note = x.At, x.Note
		if x.Priority != nil {
			terms.Priority = *x.Priority
		}
		t.Asked = &terms
	}
	t.Timeout = cmp.Or(t.Timeout, time.Duration(x.Timeout))
	if x.Key != nil {
		t.Key = string(*x.Key)
	}
}

// internEnv returns env with empty variables of limits. Equal environments share memory.
func (f *feed) internEnv(env []task.Bytes) []string {
	list := withoutUnits(convert[string](env), f.opts.Queue.Caps)
	key := strings.Join(list, "\x00")
	if same, ok := f.envs[key]; ok {
		return same
	}
	if f.envBytes += len(key); f.envBytes > maxEnvBytes {
		clear(f.envs)
		f.envBytes = len(key)
	}
	f.envs[key] = list
	return list
}
