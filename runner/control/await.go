package control

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"crew/runner/task"
)

// await tells the client how tasks end, as they do.
func (c *conn) await(r *Request) (*Reply, error) {
	if !r.namesTasks() {
		return nil, bad("wait needs either tasks, a key, or all")
	}
	named := c.s.cfg.Do(r.naming(task.Find))
	if named.Err != nil {
		return nil, named.Err
	}
	l := c.s.sink.listenTo(named.IDs...)
	defer c.s.sink.leave(l)
	left, before := map[uint64]bool{}, map[uint64]bool{}
	for _, id := range c.s.cfg.Do(task.Command{Op: task.Unfinished, IDs: named.IDs}).IDs {
		left[id] = true
	}
	for _, id := range named.IDs {
		if !left[id] {
			before[id] = true
		}
	}
	if len(before) == 0 {
		return nil, c.awaitEnds(l, left, before, 0)
	}
	snap, err := c.s.snapshot()
	if err != nil {
		return nil, err
	}
	c.tell(before)
	return nil, c.awaitEnds(l, left, before, snap.Stats.Finished())
}

// awaitEnds tells the client how the tasks that are left end. The tasks of before had ended
// before l listened; the sink hears of them until it has heard of so many ends, if at all.
func (c *conn) awaitEnds(l *listener, left, before map[uint64]bool, ends int64) error {
	for {
		last := c.s.over() // read first: no events come after that
		heard := c.s.sink.ends()
		events, _ := c.s.sink.take(l)
		for i := range events {
			e := &events[i]
			closeAll(e.outs)
			if id := e.Task.ID; e.Kind == task.Finished && (left[id] || before[id]) {
				f := e.Result.Facts()
				name(&f, e.Task, e.Task.ArgvIn(e.Result))
				c.put(&Reply{Ended: []task.Facts{f}})
				delete(left, id)
				delete(before, id)
			}
		}
		switch {
		case c.flush() != nil:
			return c.err
		case len(left) > 0 && last:
			return errOver
		case len(left) == 0 && len(before) == 0:
			return nil
		case len(left) == 0 && (last || heard >= ends):
			if c.tell(before); len(before) > 0 {
				return c.unknown(before)
			}
			return nil
		}
		wait := watchGap
		if len(left) == 0 {
			wait = followMost
		}
		if !c.wait(l, wait) {
			return io.EOF
		}
	}
}

// tell tells the client how tasks have ended, as far as that is kept, and removes them from
// the set.
func (c *conn) tell(ended map[uint64]bool) {
	list := make([]Where, 0, len(ended))
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		list = append(list, Where{State: "ended", Past: task.Past{Facts: task.Facts{Task: id}}})
	}
	c.s.recall(list, true)
	for i := range list {
		if f := list[i].Facts; f.Outcome != 0 {
			c.put(&Reply{Ended: []task.Facts{f}})
			delete(ended, f.Task)
		}
	}
}

// unknown returns the error that nothing is known of tasks that have ended.
func (c *conn) unknown(ended map[uint64]bool) error {
	text := fmt.Sprintf("task %d has ended, and no more is known of it", slices.Min(slices.Collect(maps.Keys(ended))))
	if c.s.cfg.See.Ended == nil {
		text += ": --state DIR keeps more"
	}
	return &Refused{Text: text, Status: refused}
}
