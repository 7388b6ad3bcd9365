package runner

import (
	"fmt"

	"crew/runner/task"
)

// Tasks may come after others (task.Task.After): they start once all of those have
// succeeded, and if one ends otherwise they end as start-failed.

// holds reports whether a task has to wait for others. The error is that it waits
// in vain.
func (c *core) holds(e *entry) (bool, error) {
	for _, id := range e.task.After {
		if first := c.entries[id]; first != nil {
			c.after[id] = append(c.after[id], e.item.ID)
			e.awaits++
		} else if was, ok := c.memory.tasks[id]; ok {
			return false, inVain(id, was.outcome)
		}
	}
	return e.awaits > 0, nil
}

func inVain(id uint64, o task.Outcome) error {
	return fmt.Errorf("task %d, which it comes after, did not succeed: %v", id, o)
}

// waitFor returns how many tasks wait for one to succeed.
func (c *core) waitFor(id uint64) (n int) {
	for _, id2 := range c.after[id] {
		if e := c.entries[id2]; e != nil && e.state == held {
			n++
		}
	}
	return n
}

// goOn tells the tasks that come after one how that has ended.
func (c *core) goOn(id uint64, o task.Outcome) {
	waiting, ok := c.after[id]
	if !ok {
		return
	}
	delete(c.after, id)
	for _, id2 := range waiting {
		e := c.entries[id2]
		if e == nil || e.state != held {
			continue
		}
		if o == task.OK {
			if e.awaits--; e.awaits == 0 && !c.enqueue(e) {
				c.refuse(e, noWorker(e.task.Key))
			}
		} else if c.phase == going { // otherwise it ends as not run
			c.refuse(e, inVain(id, o))
		}
	}
}
