package control

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"crew/runner/task"
)

// await tells the client how tasks end, as they do.
func (c *conn) await(r *Request) (*Reply, error) {
	if !namesTasks(r) {
		return nil, bad("wait needs either tasks, a key, or all")
	}
	named := c.s.cfg.Do(naming(r, task.Find))
	if named.Err != nil {
		return nil, named.Err
	}
	f := newFollower(c, named.IDs...)
	defer f.close()
	f.waits = true
	before := maps.Clone(f.tasks)
	for _, id := range c.s.cfg.Do(task.Command{Op: task.Unfinished, IDs: named.IDs}).IDs {
		delete(before, id)
	}
	unknown, err := f.tell(before)
	if err == nil {
		_, err = f.follow(false)
	}
	return nil, cmp.Or(err, unknown)
}

// tell tells the client how tasks have ended that had before, as far as that is kept. The error
// unknown is about one of which it is not.
func (f *follower) tell(before map[uint64]*course) (unknown, err error) {
	if len(before) > 0 {
		err = f.settle()
		f.hearAll()
	}
	ids := slices.Sorted(maps.Keys(before))
	kept := f.s.known(ids, true)
	for _, id := range ids {
		if f.tasks[id] == nil { // it was heard of
			continue
		}
		if e := kept[id].Facts; e.Outcome != 0 {
			f.end(e)
			continue
		}
		delete(f.tasks, id)
		unknown = cmp.Or(unknown, f.unknown(id))
	}
	return unknown, err
}

// settle waits until the sink, which is behind the run, has heard of all tasks that have ended.
func (f *follower) settle() error {
	snap, err := f.s.snapshot()
	if err != nil {
		return err
	}
	for f.s.sink.ends() < snap.Stats.Finished() && !f.s.over() {
		if !f.wait(f.events, followLeast) {
			return io.EOF
		}
	}
	return nil
}

// unknown returns the error that nothing is known of a task that has ended.
func (c *conn) unknown(id uint64) error {
	more := ""
	if c.s.cfg.See.Ended == nil {
		more = ": --state DIR keeps more"
	}
	return fmt.Errorf("task %d has ended, and no more is known of it%s", id, more)
}
