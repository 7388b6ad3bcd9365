package wiring

import (
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// Do carries out a command. The retry of an ended task is a new task, which is recorded like an added
// one. Changes to waiting tasks (hold, release, move) are recorded, too.
func (f *feed) Do(cmd task.Command) (reply task.Reply) {
	if cmd.Op != task.Look { // clients use it to find the run
		<-f.restored // earlier, the run would not know most of its tasks
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

// retry retries tasks. It records the new tasks together.
func (f *feed) retry(cmd task.Command) task.Reply {
	f.turn.Lock()
	defer f.turn.Unlock()
	reply := f.do(cmd)
	for _, t := range reply.Tasks {
		t.Identity = [16]byte{}
	}
	x := &addition{Addition: &control.Addition{}, tasks: reply.Tasks, accepted: func(_, _ []uint64) {}}
	if len(x.tasks) > 0 {
		f.commit([]*addition{x})
	}
	if x.err != nil {
		return task.Reply{Err: x.err}
	}
	return reply
}
