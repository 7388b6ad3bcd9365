package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// await tells the client how tasks end, starting with the tasks that had already ended.
func (c *conn) await(r *Request) (*Reply, error) {
	cmd, err := selection(r, task.Find)
	if err != nil {
		return nil, err
	}
	named := c.s.cfg.Do(cmd)
	if named.Err != nil {
		return nil, named.Err
	}
	f := newFollower(c, named.IDs...)
	defer f.close()
	f.endsOnly = true
	before := maps.Clone(f.tasks)
	for _, id := range c.s.cfg.Do(task.Command{Op: task.Unfinished, IDs: named.IDs}).IDs {
		delete(before, id)
	}
	var unknown error // for the first task without a known outcome
	if len(before) > 0 {
		err = f.catchUp()
		f.recordEvents()
	}
	ids := slices.Sorted(maps.Keys(before))
	known := c.s.records(ids, true)
	for _, id := range ids {
		if f.tasks[id] == nil { // record has reported it
			continue
		}
		if e := known[id].Facts; e.Outcome != 0 {
			f.sendEnd(e)
			continue
		}
		delete(f.tasks, id)
		more := ""
		if c.s.cfg.Ended == nil {
			more = ": --state DIR keeps more"
		}
		unknown = cmp.Or(unknown, fmt.Errorf("task %d has ended, and no more is known of it%s", id, more))
	}
	if err == nil {
		err = f.follow(false)
	}
	return nil, cmp.Or(err, unknown)
}

// catchUp waits until the sink, which lags behind the run, has seen all tasks that have ended so far.
func (f *follower) catchUp() error {
	now, err := f.s.status()
	if err != nil {
		return err
	}
	return f.eachWake(f.events, func() (time.Duration, bool) {
		return minFollow, f.s.sink.finishedCount() >= now.Stats.Finished()
	})
}
