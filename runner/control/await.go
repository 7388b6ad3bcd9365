package control

import (
	"fmt"
	"maps"
	"slices"

	"crew/runner/task"
)

// await tells the client how tasks end, as they do. Of those that had ended before, the sink hears
// until it has heard of as many ends as the run, if at all.
func (c *conn) await(r *Request) (*Reply, error) {
	if !namesTasks(r) {
		return nil, bad("wait needs either tasks, a key, or all")
	}
	named := c.s.cfg.Do(naming(r, task.Find))
	if named.Err != nil {
		return nil, named.Err
	}
	f := newFollower(c, c.s.sink.listen(to(named.IDs...)), named.IDs...)
	defer f.close()
	f.waits = true
	for _, id := range named.IDs {
		f.before[id] = true
	}
	for _, id := range c.s.cfg.Do(task.Command{Op: task.Unfinished, IDs: named.IDs}).IDs {
		delete(f.before, id)
	}
	if len(f.before) > 0 {
		snap, err := c.s.snapshot()
		if err != nil {
			return nil, err
		}
		f.ends = snap.Stats.Finished()
		f.tell()
	}
	if _, err := f.follow(false); err != nil {
		return nil, err
	}
	if f.tell(); len(f.before) > 0 {
		return nil, c.unknown(slices.Min(slices.Collect(maps.Keys(f.before))))
	}
	return nil, nil
}

// tell tells the client how those tasks have ended that had before, as far as that is kept.
func (f *follower) tell() {
	ids := slices.Sorted(maps.Keys(f.before))
	kept := f.s.known(ids, true)
	for _, id := range ids {
		if e := kept[id].Facts; e.Outcome != 0 {
			f.end(e)
		}
	}
}

// unknown returns the error that nothing is known of a task that has ended.
func (c *conn) unknown(id uint64) error {
	more := ""
	if c.s.cfg.See.Ended == nil {
		more = ": --state DIR keeps more"
	}
	return fmt.Errorf("task %d has ended, and no more is known of it%s", id, more)
}
