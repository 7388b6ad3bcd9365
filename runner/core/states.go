package core

import (
	"fmt"

	"crew/runner/task"
)

// legal says in which states each command is carried out that a person may give.
// The others are the run's own affair and allowed in all. The man page has the
// same table.
var legal = map[task.Op][task.Done + 1]bool{
	//            running paused rests  drains stops  done
	task.Drain:  {true, true, true, true, false, false},
	task.Rest:   {true, true, true, false, false, false},
	task.Stop:   {true, true, true, true, true, true},
	task.Resize: {true, true, true, false, false, false},
	task.Grow:   {true, true, true, false, false, false},
	task.Pause:  {true, true, true, false, false, false},
	task.Resume: {true, true, true, false, false, false},
	task.Add:    {true, true, false, false, false, false},
	task.Cancel: {true, true, true, true, true, false},
	task.Retry:  {true, true, true, false, false, false},
}

// reasons say why a command is refused in a state.
var reasons = [task.Done + 1]string{
	task.Rests:  "it drains: it takes nothing more",
	task.Drains: "it drains: nothing more starts",
	task.Stops:  "it stops: its tasks are being ended",
	task.Done:   "it is done: only its results are still being shown",
}

// refusal returns why a command is not carried out now, or nil. A signal is always
// obeyed.
func (c *Core) refusal(cmd task.Command) error {
	state := c.state()
	if state == task.Paused && c.input.rest && cmd.Op == task.Add {
		state = task.Rests
	}
	if in, limited := legal[cmd.Op]; !limited || in[state] || cmd.Signal != 0 {
		return nil
	}
	return fmt.Errorf("%s", reasons[state])
}

func (c *Core) state() task.State {
	switch {
	case c.end.sealed:
		return task.Done
	case c.end.phase >= stopping:
		return task.Stops
	case c.end.phase == draining:
		return task.Drains
	case c.queue.paused || c.stopped():
		return task.Paused
	case c.input.rest:
		return task.Rests
	}
	return task.Going
}
