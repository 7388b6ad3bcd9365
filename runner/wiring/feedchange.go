package wiring

import (
	"cmp"
	"fmt"

	"crew/runner/control"
	"crew/runner/task"
)

// Do carries out a command. A task that has ended is retried as another one, which is
// recorded like those that are added; what is done by hand with one that waits is recorded, too.
func (f *feed) Do(cmd task.Command) (reply task.Reply) {
	if cmd.Op != task.Look { // by which clients find the run
		<-f.begun // or it would know nothing of most tasks
	}
	switch cmd.Op {
	case task.Hold, task.Release, task.Move:
		f.turn.Lock()
		defer f.turn.Unlock()
		if reply = f.do(cmd); f.queue != nil && len(reply.Tasks) > 0 {
			if err := f.queue.Change(reply.Tasks); err != nil {
				return task.Reply{Err: err}
			}
		}
		return reply
	case task.Retry:
		return f.retry(cmd)
	}
	return f.do(cmd)
}

// retry retries tasks. Those that run as new ones are recorded together.
func (f *feed) retry(cmd task.Command) task.Reply {
	f.turn.Lock()
	defer f.turn.Unlock()
	reply := f.do(cmd)
	for _, t := range reply.Tasks {
		t.Identity = [16]byte{}
	}
	x := &addition{Addition: &control.Addition{}, tasks: reply.Tasks, numbered: func([]uint64) {}}
	f.commit([]*addition{x}, x.tasks)
	if x.err != nil {
		return task.Reply{Err: x.err}
	}
	return reply
}

// remake returns what a task that was accepted for another command is for this one.
func (f *feed) remake(was *task.Task) (*task.Task, error) {
	o := f.source.opts
	what := ""
	switch {
	case was.Bare && o.TakesValues():
		what = "commands"
	case !was.Bare && !o.TakesValues():
		what = "values"
	case o.Input.JSON && was.Object == "":
		what = "values that are no objects"
	case was.Bare:
		return was, nil
	}
	if what != "" {
		return nil, fmt.Errorf("%s wait in %s, and this crew serve takes none: run the former command until they have ended", what, o.State.Dir)
	}
	t, err := f.source.tasks.Remake(was)
	if err == nil {
		f.inherit(t, was)
	}
	return t, err
}

// inherit has a task that takes the place of another one keep what that was added with.
func (f *feed) inherit(t, was *task.Task) {
	t.Identity, t.Attempts, t.Known, t.Failures = was.Identity, was.Attempts, was.Known, was.Failures
	own, terms := t.Terms(), was.Terms()
	terms.Weight, terms.Needs = own.Weight, own.Needs
	if t.Key, t.Asked = was.Key, nil; !terms.IsZero() {
		t.Asked = &terms
	}
	t.Timeout = cmp.Or(t.Timeout, was.Timeout)
	if was.Bare {
		t.Dir, t.Env, t.Bare = was.Dir, was.Env, true
	}
}
