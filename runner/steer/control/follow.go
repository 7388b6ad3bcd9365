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
	// A follower polls for new output at intervals between these. Waking it at every write would
	// slow down the run.
	minFollow = 5 * time.Millisecond
	maxFollow = 160 * time.Millisecond
	// watchGap is how often a watcher checks that its client is still connected, and sends it the
	// state of the run.
	watchGap = time.Second
	// logWait is how long log, without follow, waits for the output of a task that is about to start, or has just
	// ended.
	logWait = time.Second
)

// follower sends the output of tasks to a client, and how they end.
type follower struct {
	*conn
	events   *listener
	tasks    map[uint64]*cursor // tasks that were not sent as ended yet
	endsOnly bool               // send no output
	noEnds   bool               // send output only
}

// cursor records how much of a task's output was sent.
type cursor struct {
	id          uint64
	attempt     int          // the running attempt; 0 if none runs
	sentAttempt int          // output up to this attempt was sent, or is not wanted
	outs        [2]task.Live // stdout and stderr of the attempt; nil until they are found
	sent        [2]int64     // bytes of outs that were sent
}

// streams are the names of a task's outputs.
var streams = [...]string{"stdout", "stderr"}

// allOutput is an offset past the end of any output.
var allOutput = [2]int64{math.MaxInt64, math.MaxInt64}

func closeAll(outs [2]task.Live) {
	for _, o := range outs {
		if o != nil {
			_ = o.Close()
		}
	}
}

// closeOutputs closes the outputs of the attempt.
func (t *cursor) closeOutputs() {
	closeAll(t.outs)
	t.outs, t.sent = [2]task.Live{}, [2]int64{}
}

// newFollower returns a follower that gets the events of all tasks from now on, until attend chooses some.
func newFollower(c *conn) *follower {
	return &follower{conn: c, tasks: map[uint64]*cursor{}, events: c.s.sink.addListener(&listener{every: true})}
}

// attend chooses the tasks to follow. Events since newFollower count.
func (f *follower) attend(ids []uint64) {
	f.s.sink.mu.Lock()
	defer f.s.sink.mu.Unlock()
	f.events.every = false
	for _, id := range ids {
		f.tasks[id], f.events.tasks[id] = &cursor{id: id}, true
	}
}

// close removes the listener and closes all outputs.
func (f *follower) close() {
	f.s.sink.removeListener(f.events)
	for _, t := range f.tasks {
		t.closeOutputs()
	}
}

// unfinished returns the tasks that were not sent as ended.
func (f *follower) unfinished() []uint64 { return slices.Sorted(maps.Keys(f.tasks)) }

// eachWake calls step at once, and then again whenever l may have events, or after the time that step
// returned. It returns nil once step is done, an error if the client disconnects, and errOver if the run
// is over.
func (c *conn) eachWake(l *listener, step func() (again time.Duration, done bool)) error {
	for {
		last := c.s.isOver() // read before step, which may miss later events
		again, done := step()
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

// follow sends the output of tasks from the first byte to the last, and how the tasks end. It fails if the
// client disconnects or the run is over first. With now, it sends the output that one running attempt has written
// so far; if the attempt is just about to start or has just ended, this takes a moment.
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

// recordEvents records new events, and reports whether there were any.
func (f *follower) recordEvents() bool {
	events, _ := f.s.sink.takeEvents(f.events)
	for i := range events {
		f.record(&events[i])
	}
	return len(events) > 0
}

// record records that an attempt started or ended.
func (f *follower) record(e *heldEvent) {
	defer closeAll(e.outs)
	t := f.tasks[e.Task.ID]
	switch {
	case t == nil: // its end was already sent
		return
	case e.Kind == task.Started:
		t.attempt = e.Attempt
		return
	case !f.endsOnly && e.Result.Attempt > t.sentAttempt:
		found := t.outs
		for i, o := range e.outs {
			if o != nil { // the attempt was too short for its output to be found, or a persistent worker answered
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
		if e.Result.FromEarlierRun() { // the journal has the rest
			if p, ok := f.s.records([]uint64{t.id}, true)[t.id]; ok {
				end = p.Facts
			}
		}
		end.Describe(e.Task, e.Result.Argv)
		f.sendEnd(end)
	}
}

// sendEnd sends how a task ended.
func (f *follower) sendEnd(e task.Facts) {
	if delete(f.tasks, e.Task); !f.noEnds {
		f.reply(&Reply{Ended: []task.Facts{e}})
	}
}

// findOutputs finds the outputs of the running attempt. It returns false if they do not exist yet, or no
// longer exist.
func (c *conn) findOutputs(t *cursor) bool {
	if t.outs != [2]task.Live{} || t.attempt == 0 || c.s.cfg.Live == nil {
		return t.attempt != 0
	}
	out, err, attempt := c.s.cfg.Live(t.id)
	if attempt == 0 {
		return false
	}
	t.outs = [2]task.Live{out, err}
	if attempt != t.attempt {
		t.closeOutputs() // a later attempt: its start event will come
		return false
	}
	return true
}

// sendOutputs sends the outputs of an attempt up to the given offsets, and reports whether it sent anything.
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

// currentSizes returns the current sizes of outputs.
func currentSizes(outs [2]task.Live) (n [2]int64) {
	for i, o := range outs {
		if o != nil {
			n[i] = int64(sort.Search(math.MaxInt, func(off int) bool {
				got, _ := o.ReadAt(make([]byte, 1), int64(off))
				return got == 0
			}))
		}
	}
	return n
}

// log sends the output of one task and, if the client follows it, how the task ended.
func (c *conn) log(r *Request) (*Reply, error) {
	if len(r.Tasks) != 1 {
		return nil, badRequest("log needs one task")
	}
	f := newFollower(c)
	defer f.close()
	f.attend(r.Tasks) // before Explain, so that no end is missed
	got := c.s.ask(task.Command{Op: task.Explain, IDs: r.Tasks})
	if got.Err != nil {
		return nil, got.Err
	}
	f.noEnds = !r.Follow
	return nil, f.logTask(&got.Wheres[0], r.Follow)
}

// logTask sends the output of the task that w describes.
func (f *follower) logTask(w *task.Where, follow bool) error {
	switch t, was := f.tasks[w.Task], f.s.sink.lookup(w.Task); {
	case w.State != "running" && w.Blocking == nil:
		return f.logEnded(w)
	case f.s.cfg.Live == nil:
		return errors.New("this run keeps no output: --output group does")
	case w.Blocking == nil:
		t.attempt, t.sentAttempt = w.Attempt, w.Attempt-1
	case was != nil && was.Blocking != nil: // it waits for its retry
		t.sentAttempt = was.Attempt
		if f.sendKept(&was.EndedTask); !follow {
			return nil
		}
	case !follow:
		return fmt.Errorf("task %d is not running: %s; log -f waits for it", w.Task, w.Blocking.Text(time.Now()))
	}
	return f.follow(!follow)
}

// logEnded sends the output of an ended task. The error says why there is none.
func (f *follower) logEnded(w *task.Where) error {
	if w.State == "unknown" {
		return fmt.Errorf("there is no task %d yet: the tasks are numbered from 1", w.Task)
	}
	wait := time.Duration(math.MaxInt64)
	if f.noEnds {
		wait = logWait
	}
	late, err := f.catchUp(wait)
	if err != nil {
		return err
	}
	p := f.s.records([]uint64{w.Task}, false)[w.Task]
	if see := f.s.cfg.Ended; see != nil && (!p.Kept || p.Cut != [2]int64{}) {
		for _, all := range see(1, func(id uint64, _ task.Outcome) bool { return id == w.Task }) {
			if all.Kept {
				p = all
			}
		}
	}
	switch {
	case p.Kept:
		f.sendKept(&p)
		f.sendEnd(p.Facts)
		return nil
	case w.Held != 0:
		return fmt.Errorf("task %d has ended, and its output is shown once task %d has ended", w.Task, w.Held)
	case late:
		return fmt.Errorf("task %d has ended, but earlier results are still being written: try again later", w.Task)
	}
	keeps := "--results DIR keeps it"
	if f.s.cfg.Ended == nil {
		keeps = "--state DIR or " + keeps
	}
	return fmt.Errorf("task %d has ended, and its output was not kept: %s", w.Task, keeps)
}

// sendKept sends the kept part of a task's output.
func (c *conn) sendKept(p *task.EndedTask) {
	for i, cut := range p.Cut {
		if cut > 0 {
			c.reply(&Reply{Facts: task.Facts{Task: p.Task, Cut: cut}, Stream: streams[i]})
		}
	}
	t := &cursor{id: p.Task, outs: p.Outputs}
	c.sendOutputs(t, allOutput)
	t.closeOutputs()
}

// watch sends events until the client disconnects or the run is over, and then the totals. With follow, it
// also sends the state of the run, first and every watchGap, the tasks that ended before or are running,
// and the ends of the output of failed attempts.
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
		last := c.s.sink.finishedCount() == math.MaxInt64 // read first: otherwise later events could be missed
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
		return time.Until(told.Add(watchGap)), last
	})
	if err == nil || err == error(errOver) {
		return &Reply{Run: c.s.final()}, nil
	}
	return nil, err
}

// sendBefore sends the tasks of this run that ended earlier, as far as they are known, the number of the
// others, and the tasks that are running. s is the state of the run, or nil to send nothing. sendBefore
// returns the stage of each task that it sent.
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
	lost := -int64(len(told))
	for outcome, n := range s.Outcomes {
		lost += n - s.Earlier[outcome]
	}
	c.sendLost(lost)
	for _, w := range s.Tasks {
		if f := w.Facts; told[f.Task] == 0 { // it has not ended in the meantime
			told[f.Task] = 2 * f.Attempt
			f.Duration, f.PID = 0, 0
			c.reply(&Reply{Event: &Event{Name: "started", At: f.Start}, Facts: f})
		}
	}
	return told
}

// stage returns a positive number for how far a task was when an event happened, so that events that
// sendBefore has covered can be skipped.
func stage(e *task.Event) int {
	if e.Result != nil {
		return 2*e.Result.Attempt + 1
	}
	return max(1, 2*e.Attempt)
}

// sendTails sends the end of the output of a failed attempt, if it is remembered.
func (c *conn) sendTails(f *task.Facts) {
	if !f.Outcome.Failed() {
		return
	}
	if p := c.s.sink.lookup(f.Task); p != nil {
		sendTails(c.reply, &p.EndedTask, c.s.cfg.Live != nil)
	}
}

// sendLost tells the client that it misses n events.
func (c *conn) sendLost(n int64) {
	if n > 0 {
		c.reply(&Reply{Event: &Event{Name: "lost", At: time.Now(), Count: n}})
	}
}
