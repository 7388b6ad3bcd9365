package control

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"crew/runner/decide/task"
)

const (
	// A follower looks for new output at intervals between these. Waking it at every
	// write would cost the run something.
	minFollow = 5 * time.Millisecond
	maxFollow = 160 * time.Millisecond
	// watchGap is how often a watcher looks whether its client is still there, and tells it the
	// state of the run.
	watchGap = time.Second
	// logWait is how long log waits for the output of a task that is about to start.
	logWait = time.Second
)

// follower passes on the output of tasks to a client, and how they end.
type follower struct {
	*conn
	events   *listener
	tasks    map[uint64]*cursor // those of which it has not told the end
	endsOnly bool               // the client wants to know each end at once, and no output
	ended    []task.Facts
}

// course is how far the output of a task has been passed on.
type cursor struct {
	id          uint64
	attempt     int          // the one that runs; 0 if none does
	sentAttempt int          // what this one and those before it wrote was passed on, or is not wanted
	outs        [2]task.Live // its stdout and stderr; nil until they are found
	sent        [2]int64     // bytes of them
}

// streams are the names of a task's outputs.
var streams = [...]string{"stdout", "stderr"}

// whole is the end of outputs, however long.
var allOutput = [2]int64{math.MaxInt64, math.MaxInt64}

func closeAll(outs [2]task.Live) {
	for _, o := range outs {
		if o != nil {
			_ = o.Close()
		}
	}
}

// letGo closes the outputs of the attempt.
func (t *cursor) closeOutputs() {
	closeAll(t.outs)
	t.outs, t.sent = [2]task.Live{}, [2]int64{}
}

// newFollower returns a follower of tasks, which hears of what happens to them from now on.
func newFollower(c *conn, ids ...uint64) *follower {
	f, about := &follower{conn: c, tasks: map[uint64]*cursor{}}, map[uint64]bool{}
	for _, id := range ids {
		f.tasks[id], about[id] = &cursor{id: id}, true
	}
	f.events = c.s.sink.addListener(&listener{tasks: about})
	return f
}

// close lets go of all outputs.
func (f *follower) close() {
	f.s.sink.removeListener(f.events)
	for _, t := range f.tasks {
		t.closeOutputs()
	}
}

// left returns the tasks of which the end was not told.
func (f *follower) unfinished() []uint64 { return slices.Sorted(maps.Keys(f.tasks)) }

// attend calls hear at once and then whenever l may have heard something, and after as long as hear has
// returned. It returns once that is done, and fails if the client goes or, with errOver, the run is over.
func (c *conn) eachWake(l *listener, hear func() (again time.Duration, done bool)) error {
	for {
		last := c.s.isOver() // read first: what comes after that may be missed
		again, done := hear()
		switch {
		case c.flush() != nil:
			return c.err
		case done:
			return nil
		case last:
			return errOver
		}
		select {
		case <-l.wake:
		case <-c.s.closing:
		case <-time.After(again):
			if c.link.Gone() {
				return io.EOF
			}
		}
	}
}

// follow passes on the output of tasks from the first byte to the last, and how they end. It fails if
// the client goes or the run is over before that. With now,
// it passes on what one running attempt has written so far. If that is just about to
// start or has just ended, this takes a moment.
func (f *follower) follow(now bool) error {
	end, wait := time.Now().Add(logWait), minFollow
	return f.eachWake(f.events, func() (time.Duration, bool) {
		some := f.recordEvents()
		if f.endsOnly {
			return watchGap, len(f.tasks) == 0
		}
		for _, id := range f.unfinished() {
			t := f.tasks[id]
			found := f.findOutputs(t)
			if now && (found || t.attempt == 0 || time.Now().After(end)) {
				f.sendOutputs(t, currentSizes(t.outs))
				return 0, true
			}
			const part = 1 << 20
			some = found && f.sendOutputs(t, [2]int64{t.sent[0] + part, t.sent[1] + part}) || some
		}
		if wait = min(2*wait, maxFollow); some {
			wait = minFollow
		}
		return wait, len(f.tasks) == 0
	})
}

// hearAll records what happened, and reports whether that was anything.
func (f *follower) recordEvents() bool {
	events, _ := f.s.sink.takeEvents(f.events)
	for i := range events {
		f.record(&events[i])
	}
	return len(events) > 0
}

// hear records that an attempt started or ended.
func (f *follower) record(e *heldEvent) {
	defer closeAll(e.outs)
	t := f.tasks[e.Task.ID]
	switch {
	case t == nil: // it was told already
		return
	case e.Kind == task.Started:
		t.attempt = e.Attempt
		return
	case !f.endsOnly && e.Result.Attempt > t.sentAttempt:
		found := t.outs
		for i, o := range e.outs {
			if o != nil { // it may have been too short to be found while it ran, or a worker's answer
				t.outs[i] = o
			}
		}
		f.sendOutputs(t, allOutput)
		t.outs = found
		t.closeOutputs()
		t.attempt = 0
	}
	if e.Kind == task.Finished {
		end := e.Result.Facts()
		if e.Result.Known() { // the journal has the rest
			if p, ok := f.s.records([]uint64{t.id}, true)[t.id]; ok {
				end = p.Facts
			}
		}
		end.Describe(e.Task, e.Result.Argv)
		f.sendEnd(end)
	}
}

// end tells how a task ended, or keeps that to the end.
func (f *follower) sendEnd(e task.Facts) {
	delete(f.tasks, e.Task)
	if f.endsOnly {
		f.reply(&Reply{Ended: []task.Facts{e}})
	} else {
		f.ended = append(f.ended, e)
	}
}

// find looks for the output of the running attempt. It returns false if there is none
// yet, or not any more.
func (c *conn) findOutputs(t *cursor) bool {
	if t.outs != [2]task.Live{} || t.attempt == 0 || c.s.cfg.Details.Live == nil {
		return t.attempt != 0
	}
	out, err, attempt := c.s.cfg.Details.Live(t.id)
	if attempt == 0 {
		return false
	}
	t.outs = [2]task.Live{out, err}
	if attempt != t.attempt {
		t.closeOutputs() // a later one, whose start will be heard of
		return false
	}
	return true
}

// pass passes on the output of an attempt up to the given offsets, and reports whether
// that was anything.
func (c *conn) sendOutputs(t *cursor, end [2]int64) (some bool) {
	if c.buf == nil {
		c.buf = make([]byte, block/2)
	}
	for i, o := range t.outs {
		for o != nil && c.err == nil {
			n, err := o.ReadAt(c.buf[:min(int64(len(c.buf)), end[i]-t.sent[i])], t.sent[i])
			if n > 0 {
				c.reply(&Reply{Facts: task.Facts{Task: t.id}, Stream: streams[i], Data: c.buf[:n]})
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
func currentSizes(outs [2]task.Live) (n [2]int64) {
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

// log passes on the output of one task and, if the client follows it, how it ended.
func (c *conn) log(r *Request) (*Reply, error) {
	if len(r.Tasks) != 1 {
		return nil, badRequest("log needs one task")
	}
	f := newFollower(c, r.Tasks...) // before the question, so that no end is missed
	defer f.close()
	got := c.s.ask(task.Command{Op: task.Explain, IDs: r.Tasks})
	switch {
	case got.Err != nil:
		return nil, got.Err
	case len(got.Wheres) == 0:
		return nil, errOver
	}
	err := f.logTask(&got.Wheres[0], r.Follow)
	if !r.Follow {
		return nil, err
	}
	return &Reply{Ended: f.ended}, err
}

// log passes on the output of the task that w is about.
func (f *follower) logTask(w *task.Where, follow bool) error {
	switch t, was := f.tasks[w.Task], f.s.sink.lookup(w.Task); {
	case w.State != "running" && w.Blocking == nil:
		return f.logEnded(w)
	case f.s.cfg.Details.Live == nil:
		return errors.New("this run keeps no output that could be shown here: --output group does")
	case w.Blocking == nil:
		t.attempt, t.sentAttempt = w.Attempt, w.Attempt-1
	case was != nil && was.Blocking != nil: // it waits for its retry
		t.sentAttempt = was.Attempt
		if f.sendKept(&was.EndedTask); !follow {
			return nil
		}
	case !follow:
		return fmt.Errorf("task %d does not run: %s; log -f waits for it", w.Task, w.Blocking.Text(time.Now()))
	}
	return f.follow(!follow)
}

// past passes on the output of a task that has ended. The error says why there is none.
func (f *follower) logEnded(w *task.Where) error {
	if w.State == "unknown" {
		return fmt.Errorf("there is no task %d yet: the tasks are numbered from 1", w.Task)
	}
	if err := f.catchUp(); err != nil {
		return err
	}
	p := f.s.records([]uint64{w.Task}, true)[w.Task]
	if see := f.s.cfg.Details.Ended; see != nil && p.Cut != [2]int64{} {
		if all := see(w.Task)[w.Task]; all.Kept {
			p = all
		}
	}
	switch {
	case p.Kept:
		f.sendKept(&p)
		f.sendEnd(p.Facts)
		return nil
	case w.Held != 0:
		return fmt.Errorf("task %d has ended, and its output is shown once task %d has ended", w.Task, w.Held)
	}
	return fmt.Errorf("task %d has ended, and its output was shown where the run shows it: --state DIR keeps it, and --results DIR, too", w.Task)
}

// show passes on what is kept of the output of a task.
func (c *conn) sendKept(p *task.EndedTask) {
	for i, cut := range p.Cut {
		if cut > 0 {
			c.reply(&Reply{Facts: task.Facts{Task: p.Task}, Stream: streams[i], Cut: cut})
		}
	}
	t := &cursor{id: p.Task, outs: p.Outputs}
	c.sendOutputs(t, allOutput)
	t.closeOutputs()
}

// watch tells the client what happens until it goes or the run is over, and then the
// totals. If it follows, it is told how tasks ended before and what runs, too, the state of the run first
// and every watchGap, and the ends of what failed attempts wrote.
func (c *conn) watch(r *Request) (*Reply, error) {
	l := c.s.sink.addListener(&listener{all: true})
	defer c.s.sink.removeListener(l)
	told := time.Now()
	var first *Status
	if r.Follow {
		first, _ = c.s.status()
	}
	c.reply(&Reply{Event: &Event{Name: "watching", At: told}, Hello: &c.s.cfg.About, Run: first})
	before := c.sendBefore(first)
	err := c.eachWake(l, func() (time.Duration, bool) {
		events, lost := c.s.sink.takeEvents(l)
		for i := range events {
			if t := events[i].Task; t != nil && stage(&events[i].Event) <= before[t.ID] {
				continue
			}
			f, e := newEvent(&events[i].Event)
			if r.Follow {
				c.sendTails(&f)
			}
			if e.Name != "" {
				c.reply(&Reply{Event: &e, Facts: f})
			}
		}
		c.sendLost(lost)
		if time.Since(told) >= watchGap {
			told = time.Now()
			if r.Follow {
				now, _ := c.s.status()
				c.reply(&Reply{Run: now})
			}
		}
		return time.Until(told.Add(watchGap)), false
	})
	if err == error(errOver) {
		return &Reply{Run: c.s.final()}, nil
	}
	return nil, err
}

// tellBefore tells how tasks of this run have ended, as far as that is known, how many others have, and
// which run, by the state of the run, which may be nil. It returns how far that tells of tasks, as farOf
// has it.
func (c *conn) sendBefore(s *Status) map[uint64]int {
	if s == nil {
		return nil
	}
	told := map[uint64]int{}
	for _, w := range c.s.lastEnded(maxListed, false).Wheres {
		if at := w.Start.Add(time.Duration(w.Duration)); !at.Before(c.s.cfg.About.Since) {
			told[w.Task] = math.MaxInt
			c.sendTails(&w.Facts)
			c.reply(&Reply{Event: &Event{Name: "finished", At: at}, Facts: w.Facts})
		}
	}
	lost := s.Done + s.Dropped - int64(len(told))
	for _, earlier := range s.Earlier {
		lost -= earlier
	}
	c.sendLost(lost)
	for _, w := range s.Tasks {
		if f := w.Facts; told[f.Task] == 0 { // it has not ended meanwhile
			told[f.Task] = 2 * f.Attempt
			f.Duration, f.PID = 0, 0
			c.reply(&Reply{Event: &Event{Name: "started", At: f.Start}, Facts: f})
		}
	}
	return told
}

// farOf returns how far an event of an attempt shows its task to be. It is positive.
func stage(e *task.Event) int {
	if e.Result != nil {
		return 2*e.Result.Attempt + 1
	}
	return max(1, 2*e.Attempt)
}

// tellEnd tells the end of what a failed attempt wrote, if that is remembered.
func (c *conn) sendTails(f *task.Facts) {
	if !f.Outcome.Failed() {
		return
	}
	if p := c.s.sink.lookup(f.Task); p != nil {
		sendTails(c.reply, &p.EndedTask, c.s.cfg.Details.Live != nil)
	}
}

// tellLost tells that the client does not learn of n events.
func (c *conn) sendLost(n int64) {
	if n > 0 {
		c.reply(&Reply{Event: &Event{Name: "lost", At: time.Now(), Count: n}})
	}
}
