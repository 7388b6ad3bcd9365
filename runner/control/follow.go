package control

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"crew/runner/task"
)

const (
	// A follower looks for new output at intervals between these. Waking it at every
	// write would cost the run something.
	followLeast = 5 * time.Millisecond
	followMost  = 160 * time.Millisecond
	// watchGap is how often a watcher looks whether its client is still there.
	watchGap = time.Second
	// logWait is how long log waits for the output of a task that is about to start.
	logWait = time.Second
)

// course is how far the output of a task has been passed on.
type course struct {
	id      uint64
	attempt int          // the one that runs; 0 if none does
	outs    [2]task.Live // its stdout and stderr; nil until they are found
	sent    [2]int64     // bytes of them
}

// streams are the names of a task's outputs.
var streams = [...]string{"stdout", "stderr"}

func closeAll(outs [2]task.Live) {
	for _, o := range outs {
		if o != nil {
			_ = o.Close()
		}
	}
}

// letGo closes the outputs of the attempt.
func (c *course) letGo() {
	closeAll(c.outs)
	c.outs, c.sent = [2]task.Live{}, [2]int64{}
}

// left returns the tasks that have not ended.
func (f *follower) left() []uint64 { return slices.Sorted(maps.Keys(f.tasks)) }

// follow passes on the output of tasks from the first byte to the last, and returns
// how they ended. It fails if the client goes or the run is over before that.
func (c *conn) follow(f *follower) ([]task.Facts, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := followLeast; ; wait = min(2*wait, followMost) {
		last := c.s.over() // read first: no news come after that
		some := false
		for _, n := range c.s.sink.heard(f) {
			some = true
			c.hear(f, n)
		}
		for _, course := range f.tasks {
			some = c.grow(course) || some
		}
		switch {
		case c.flush() != nil:
			return f.ended, c.err
		case len(f.tasks) == 0:
			return f.ended, nil
		case last:
			return f.ended, errOver
		case c.gone():
			return f.ended, io.EOF
		case some:
			wait = followLeast
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-c.s.closing:
		}
	}
}

// hear records that an attempt started or ended.
func (c *conn) hear(f *follower, n news) {
	t := f.tasks[n.id]
	switch {
	case t == nil:
		closeAll(n.outs)
		return
	case n.started:
		t.attempt = n.attempt
		return
	case t.outs == [2]task.Live{}: // it was too short to be found while it ran
		t.outs = n.outs
	case n.attempt < t.attempt && n.end == nil: // log came between the two
		closeAll(n.outs)
		return
	default:
		for i, o := range n.outs {
			if t.outs[i] == nil { // a worker's answer was not there before
				t.outs[i] = o
			} else if o != nil {
				_ = o.Close()
			}
		}
	}
	c.pass(t, [2]int64{math.MaxInt64, math.MaxInt64})
	t.letGo()
	t.attempt = 0
	if n.end != nil {
		f.ended = append(f.ended, *n.end)
		delete(f.tasks, n.id)
	}
}

// find looks for the output of the running attempt. It returns false if there is none
// yet, or not any more.
func (c *conn) find(t *course) bool {
	if t.outs != [2]task.Live{} || t.attempt == 0 || c.s.cfg.Live == nil {
		return t.attempt != 0
	}
	out, err, attempt := c.s.cfg.Live(t.id)
	if attempt == 0 {
		return false
	}
	t.outs = [2]task.Live{out, err}
	if attempt != t.attempt {
		t.letGo() // a later one, whose start will be heard of
		return false
	}
	return true
}

// grow passes on what the running attempt of a task has written since the last call,
// but no more than a bounded part. It reports whether that was anything.
func (c *conn) grow(t *course) bool {
	const part = 1 << 20
	return c.find(t) && c.pass(t, [2]int64{t.sent[0] + part, t.sent[1] + part})
}

// pass passes on the output of an attempt up to the given offsets, and reports whether
// that was anything.
func (c *conn) pass(t *course, end [2]int64) (some bool) {
	if c.room == nil {
		c.room = make([]byte, block/2)
	}
	for i, o := range t.outs {
		for o != nil && c.err == nil {
			n, err := o.ReadAt(c.room[:min(int64(len(c.room)), end[i]-t.sent[i])], t.sent[i])
			if n > 0 {
				c.put(&Reply{Facts: task.Facts{Task: t.id}, Stream: streams[i], Data: c.room[:n]})
				t.sent[i] += int64(n)
				some = true
			}
			if n == 0 || err != nil {
				break
			}
		}
	}
	return some
}

// sizes returns how much there is of the outputs now.
func sizes(outs [2]task.Live) (n [2]int64) {
	for i, o := range outs {
		if o == nil {
			continue
		}
		n[i] = int64(sort.Search(math.MaxInt, func(off int) bool {
			got, _ := o.ReadAt(make([]byte, 1), int64(off))
			return got == 0
		}))
	}
	return n
}

// log passes on the output of one task.
func (c *conn) log(r *Request) (*Reply, error) {
	if len(r.Tasks) != 1 {
		return nil, bad("log needs one task")
	}
	id := r.Tasks[0]
	f, was := c.s.sink.join(id) // before the question, so that no end is missed
	defer c.s.sink.unfollow(f)
	got := c.s.looks.ask(task.Command{Op: task.Explain, IDs: []uint64{id}})
	switch {
	case got.Err != nil:
		return nil, got.Err
	case len(got.Wheres) == 0:
		return nil, errOver
	}
	w, t := &got.Wheres[0], f.tasks[id]
	switch {
	case w.Running == nil && w.Blocking == nil:
		return c.past(w, r.Follow)
	case c.s.cfg.Live == nil:
		return nil, &Refused{"this run keeps no output that could be shown here: --output group does", refused}
	case w.Running != nil:
		t.attempt = w.Running.Attempt
	case was != nil: // it waits for its retry
		p := was.past(true)
		if c.show(id, &p); !r.Follow {
			return nil, nil
		}
	case !r.Follow:
		return nil, &Refused{fmt.Sprintf("task %d does not run: %s; log -f waits for it", w.ID, w.Blocking.Text(time.Now())), refused}
	}
	if r.Follow {
		ended, err := c.follow(f)
		return &Reply{Ended: ended}, err
	}
	c.now(f, t)
	return nil, nil
}

// now passes on what a running attempt has written so far. If it is just about to
// start or has just ended, that takes a moment.
func (c *conn) now(f *follower, t *course) {
	for end := time.Now().Add(logWait); time.Now().Before(end); {
		if c.find(t) {
			c.pass(t, sizes(t.outs))
			return
		}
		for _, n := range c.s.sink.heard(f) {
			if n.attempt != t.attempt || n.started {
				closeAll(n.outs)
				continue
			}
			c.hear(f, n)
			return
		}
		if !c.pause(followLeast) {
			return
		}
	}
}

// past passes on the output of a task that has ended, and says how it did if the client
// follows it. The error says why there is none.
func (c *conn) past(w *task.Where, follow bool) (*Reply, error) {
	if !w.Known {
		return nil, &Refused{fmt.Sprintf("there is no task %d yet: the tasks are numbered from 1", w.ID), refused}
	}
	p, ok := c.s.past(w.ID)
	for end := time.Now().Add(logWait); !ok && time.Now().Before(end) && c.pause(followLeast); {
		if _, ok = c.s.sink.find(w.ID); ok { // the sink was about to hear of it
			p, ok = c.s.past(w.ID)
		}
	}
	if !ok || !p.Kept {
		text := fmt.Sprintf("task %d has ended, and its output was shown where the run shows it: --results DIR keeps it, too", w.ID)
		if w.Held != 0 {
			text = fmt.Sprintf("task %d has ended, and its output is shown once task %d has ended", w.ID, w.Held)
		}
		return nil, &Refused{text, refused}
	}
	if c.show(w.ID, &p); !follow {
		return nil, nil
	}
	return &Reply{Ended: []task.Facts{p.Facts}}, nil
}

// show passes on what is kept of the output of a task.
func (c *conn) show(id uint64, p *task.Past) {
	for i, cut := range p.Cut {
		if cut > 0 {
			c.put(&Reply{Facts: task.Facts{Task: id}, Stream: streams[i], Cut: cut})
		}
	}
	t := &course{id: id, outs: p.Outputs}
	c.pass(t, [2]int64{math.MaxInt64, math.MaxInt64})
	t.letGo()
}

// watch tells the client what happens until it goes or the run is over, and then the
// totals.
func (c *conn) watch(*Request) (*Reply, error) {
	w := c.s.sink.watch()
	defer c.s.sink.unwatch(w)
	c.put(&Reply{Event: &Event{Name: "watching", At: time.Now()}})
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []task.Event
	for {
		last := c.s.over() // read first: no events come after that
		events, lost := c.s.sink.take(w, spare)
		for i := range events {
			if f, e := eventOf(&events[i]); e.Name != "" {
				c.put(&Reply{Event: &e, Facts: f})
			}
		}
		if lost > 0 {
			c.put(&Reply{Event: &Event{Name: "lost", At: time.Now(), Count: lost}})
		}
		clear(events) // the tasks may be large
		spare = events[:0]
		if last {
			return &Reply{Run: c.s.final()}, nil
		}
		if c.flush() != nil {
			return nil, c.err
		}
		timer.Reset(watchGap)
		select {
		case <-w.wake:
		case <-timer.C:
			if c.gone() {
				return nil, io.EOF
			}
		case <-c.s.closing:
		}
	}
}
