package control

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
	f := newFollower(c) // before Find, so that no end is missed
	defer f.close()
	f.endsOnly = true
	named := c.s.cfg.Do(cmd)
	if named.Err != nil {
		return nil, named.Err
	}
	f.attend(named.IDs)
	unknown, err := f.sendPast(named.Tasks)
	if err == nil {
		err = f.follow(false)
	}
	return nil, cmp.Or(err, unknown)
}

// join shows tasks that were there before f was made, as if it had been there first. It returns what sendPast does.
func (f *follower) join(ids []uint64) (unknown, err error) {
	for _, w := range f.s.ask(task.Command{Op: task.Explain, IDs: ids}).Wheres {
		if w.State == "running" {
			f.tasks[w.Task].attempt = w.Attempt
		}
	}
	return f.sendPast(f.s.cfg.Do(task.Command{Op: task.Find, IDs: f.unfinished()}).Tasks)
}

// sendPast sends the ends of tasks that have ended already: all but the unfinished ones. unknown is an error for
// the first task without a known end.
func (f *follower) sendPast(unfinished []*task.Task) (unknown, err error) {
	before := maps.Clone(f.tasks)
	for _, t := range unfinished {
		delete(before, t.ID)
	}
	if len(before) > 0 {
		_, err = f.catchUp(math.MaxInt64)
		f.recordEvents()
	}
	ids := slices.Sorted(maps.Keys(before))
	known := f.s.records(ids, true)
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
		if f.s.cfg.Ended == nil {
			more = ": --state DIR keeps more"
		}
		unknown = cmp.Or(unknown, fmt.Errorf("task %d has ended, and no more is known of it%s", id, more))
	}
	return unknown, err
}

// catchUp waits until the sink, which lags behind the run, has seen all tasks that have ended so far. late
// means that it has not within the time of wait.
func (f *follower) catchUp(wait time.Duration) (late bool, err error) {
	now, err := f.s.status()
	if err != nil {
		return false, err
	}
	end := time.Now().Add(wait)
	err = f.eachWake(f.events, func() (time.Duration, bool) {
		late = f.s.sink.finishedCount() < now.Stats.Finished()
		return minFollow, !late || time.Now().After(end)
	})
	return late, err
}
