package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
)

const (
	// margin is added to the grace of the tasks when the run is told to end: time
	// for the kernel to end them and for a reader to take the rest of the output.
	margin = time.Second
	// moment is how long a run whose reader has gone waits for a signal. Ctrl-C
	// reaches all of a pipeline, and the reader may die before crew has noticed. If
	// tasks are running, the run waits for up to moments, since a busy machine can
	// take long to deliver a signal.
	moment  = 10 * time.Millisecond
	moments = 30
	// clockLook is how often the core looks at the machine's clock while something waits for
	// a time of that: the clock can be set, and goes on while the machine sleeps.
	clockLook = time.Minute
	// sigpipe is the reason in the events of a run that ends because nobody reads it.
	sigpipe = "SIGPIPE"
)

var (
	errStopped   = errors.New("the run ends")
	errAbandoned = errors.New("did not end in time")
)

// phase is how far the run has come towards its end. It never goes back.
type phase uint8

const (
	going    phase = iota
	draining       // nothing more starts; running attempts may finish
	stopping       // running attempts are asked to end
	killing        // running attempts are killed
)

// end is the way to the end of the run.
type end struct {
	Ending    // why and how, so far
	phase     phase
	sealed    bool         // every task has an outcome, and no more are admitted
	shown     bool         // the sinks are closed
	count     int64        // results that Config.Halt counts
	counted   *task.Result // the latest of them
	since     int64        // how many had counted when the run last went on after a pause by Config.Halt
	giveUpAt  time.Time    // when a run that was told to end stops waiting; zero is never
	unreadAt  time.Time    // when a run whose reader has just gone acts on that; zero is never
	unreadFor int          // moments that have passed since
	lateAt    time.Time    // when deadlineDue takes its next step; zero is never
	overtime  bool         // the run's time is over
}

// because notes a reason for the end of the run. The worst one stays, and the first
// of equals.
func (d *end) because(why Reason, r *task.Result, err error) {
	if d.Reason < why {
		d.Reason, d.Result, d.Err = why, r, err
	}
}

// over reports whether the sinks have seen everything and are closed, or are given up.
func (d *end) over() bool { return d.shown && d.unreadAt.IsZero() || d.Unshown }

// interrupt drains the run if the user has interrupted an attempt.
func (c *Core) interrupt(r *task.Result) {
	if r.Interrupted {
		c.end.Interrupted = true
		c.told(task.Command{Op: task.Drain, Signal: r.Signal})
	}
}

// halt ends or pauses the run once enough results count for Config.Halt. r is the
// latest one.
func (c *Core) halt(r *task.Result) {
	h, d, s := c.cfg.Halt, &c.end, &c.output.stats
	if h.When == Never || h.When != Pause && d.Reason >= Halted {
		return
	}
	ok, failed, skipped := s.Here()
	n := failed
	switch h.On {
	case OnSuccess:
		n = ok
	case OnDone:
		n = ok + failed + skipped
	}
	if n > d.count {
		d.count, d.counted = n, r
	}
	n -= d.since
	enough := n >= int64(h.N)
	if h.Percent {
		of := int64(h.Tasks) - s.Resumed() // as far as they have been read
		enough = of > 0 && n*100 >= int64(h.N)*of
	}
	if !enough {
		return
	}
	if h.When == Pause {
		c.queue.paused, c.queue.halted = true, true
		return
	}
	d.because(Halted, d.counted, nil)
	to := draining
	if h.When == Now {
		to = stopping
	}
	c.turnTo(to, "--halt")
}

// told ends the run because a command asks for it.
func (c *Core) told(cmd task.Command) {
	d := &c.end
	again := d.phase == draining && d.Reason < Told // for another reason
	d.because(Told, nil, nil)
	d.unreadAt = time.Time{}
	if cmd.Signal != 0 {
		d.Signal = cmd.Signal
	}
	why := unix.SignalName(syscall.Signal(cmd.Signal)) // "" for none
	if cmd.Err != nil {
		why = cmd.Err.Error()
	}
	if d.Reason == Told {
		d.Err = cmp.Or(cmd.Err, d.Err)
	}
	switch cmd.Op {
	case task.Drain:
		if again {
			c.enter(task.Draining, why)
		}
		c.turnTo(draining, why)
	case task.Stop:
		c.turnTo(stopping, why)
		c.wait()
	case task.Kill:
		c.turnTo(killing, why)
		d.giveUpAt = c.run.Add(margin)
		if d.sealed {
			c.giveUp()
		}
	}
}

// turnTo goes to a phase, unless the run has come so far, and says why.
func (c *Core) turnTo(to phase, why string) {
	from, begins := c.end.phase, to >= stopping && c.end.phase < stopping
	c.end.phase = max(from, to)
	switch {
	case begins && c.pool.running > 0:
		c.enter(task.Stopping, why)
	case from == going:
		c.enter(task.Draining, why)
	}
	if begins {
		for _, id := range c.ids(running) {
			c.terminate(c.entries[id], errStopped)
		}
		c.endWorkers(errStopped)
	}
	if to == killing {
		for _, id := range c.ids(running) {
			c.kill(c.entries[id])
		}
		c.endWorkers(nil)
	}
}

// enter begins a phase in which nothing more starts, and says so with an event of a kind.
// Waiting tasks end as not run.
func (c *Core) enter(kind task.Kind, why string) {
	c.endFeed()
	waiting := c.ids(queued, parked, following, held, timed, checking, delayed)
	retries := 0
	for _, id := range waiting {
		if len(c.entries[id].before) > 0 {
			retries++
		}
	}
	ids := c.holders()
	c.output.emit(task.Event{Kind: kind, Running: ids[:min(10, len(ids))], Retries: retries, Text: why})
	c.queue.ready.Abandon() // to take out thousands of tasks one by one would keep signals waiting
	c.output.events = slices.Grow(c.output.events, 2*len(waiting))
	for _, id := range waiting {
		c.notRun(c.entries[id])
	}
}

// terminate asks a running task to end, and sets the time at which it is killed.
func (c *Core) terminate(e *entry, cause error) {
	grace := cmp.Or(e.task.KillAfter, c.cfg.Limit.KillAfter)
	if cause == task.ErrMemory {
		grace = min(grace, memoryGrace)
	}
	if wait, ok := e.ladder.Step(false, grace); ok && !c.recall(e, cause) {
		c.act(e, cause, wait)
	}
}

// kill kills a running task. It is repeated until the task has ended.
func (c *Core) kill(e *entry) {
	c.terminate(e, errStopped)
	if e.state == running {
		wait, _ := e.ladder.Step(true, 0)
		c.act(e, nil, wait)
	}
}

// act takes a step in ending a running task, and the next one after a wait.
func (c *Core) act(e *entry, cause error, wait time.Duration) {
	c.fx.Acts = append(c.fx.Acts, Act{Slot: e.slot.ID, Task: e.item.ID, Attempt: e.number, Cause: cause, Tag: e.tag})
	c.queue.due.Push(e.item.ID, c.run.Add(wait))
}

// Abort ends the run because of an error of crew itself, or because nobody reads
// the results any more. Running attempts may finish, in the latter case only if the
// run drains already. Once every task has its outcome, no event would reach the sinks.
func (c *Core) Abort(err error) {
	d := &c.end
	switch {
	case errors.Is(err, syscall.EPIPE): // the run ends a moment later
		if d.Reason < Unread && d.phase < draining {
			d.unreadAt = c.run.Add(moment)
		}
		d.because(Unread, nil, err)
		c.turnTo(draining, sigpipe)
		return
	case d.Reason < Broken:
		d.because(Broken, nil, err)
	case d.sealed:
		d.More = append(d.More, err)
	default:
		c.output.notice(err.Error())
	}
	if d.sealed {
		return
	}
	why := ""
	if c.pool.running > 0 { // otherwise the run ends now and reports the error anyway
		why = err.Error()
	}
	c.turnTo(draining, why)
}

// unreadDue handles the end of a moment.
func (c *Core) unreadDue() {
	d := &c.end
	if d.unreadFor++; c.pool.running > 0 && d.unreadFor < moments {
		d.unreadAt = c.run.Add(moment)
		return
	}
	d.unreadAt = time.Time{}
	c.turnTo(stopping, sigpipe)
	c.wait()
}

// deadlineDue ends a run whose time is over: it drains, and attempts that still run
// Limit.KillAfter later are asked to end.
func (c *Core) deadlineDue() {
	d := &c.end
	if c.untilPending() {
		d.lateAt = c.run.Add(c.cfg.Limit.Until.Sub(c.now))
	}
	switch {
	case !c.reached(d.lateAt):
	case d.sealed:
		d.lateAt = time.Time{}
	case !d.overtime:
		d.overtime, d.lateAt = true, c.run.Add(c.cfg.Limit.KillAfter)
		d.because(Late, nil, nil)
		c.turnTo(draining, "--deadline")
	default:
		d.lateAt = time.Time{}
		c.turnTo(stopping, "--deadline")
		c.wait()
	}
}

// untilPending reports whether Limit.Until is still to come, as far as the core has
// noticed.
func (c *Core) untilPending() bool {
	return !c.cfg.Limit.Until.IsZero() && !c.end.overtime && !c.end.sealed
}

// wait limits the time that a run which was told to end may still take. A run
// that ends by itself waits for its tasks and its reader as long as they take.
func (c *Core) wait() {
	if c.end.giveUpAt.IsZero() {
		c.end.giveUpAt = c.run.Add(c.cfg.Limit.KillAfter + margin)
	}
}

// giveUp stops waiting for attempts that should have ended by now or, if there
// are none, for the reader of the output.
func (c *Core) giveUp() {
	d := &c.end
	d.giveUpAt = c.run.Add(margin)
	if d.sealed {
		d.Unshown = true
		return
	}
	left := c.ids(running, decided)
	if len(left) == 0 {
		d.Abandoned += c.pool.streams.serving
	}
	c.pool.streams.serving = 0
	for _, id := range left {
		e := c.entries[id]
		c.queue.due.Remove(id)
		if e.state == decided {
			c.recorded(e)
			continue
		}
		d.Abandoned++
		c.finish(e, e.cut(errAbandoned, c.now))
	}
}

// seal reports whether every task has its outcome and no more will come. Once it
// does, the run admits no more.
func (c *Core) seal() bool {
	d, i := &c.end, &c.input
	ends := (i.over() || d.phase > going) && d.unreadAt.IsZero()
	d.sealed = d.sealed || ends && len(c.entries) == 0 && c.pool.streams.serving == 0 &&
		(c.cfg.Feed.Open || uint64(c.output.stats.Admitted) == i.numbered.Load())
	return d.sealed
}

// Shown takes that the sinks are closed.
func (c *Core) Shown() { c.end.shown = true }

// Ending returns how the run has ended. It panics unless every admitted task has exactly
// one outcome.
func (c *Core) Ending() Ending {
	s := c.output.stats
	if s.Finished() != s.Admitted || s.Released != s.Admitted || len(c.entries) != 0 || c.pool.running != 0 {
		panic(fmt.Sprintf("internal error: %d tasks admitted, %d finished, %d released, %d left, %d running",
			s.Admitted, s.Finished(), s.Released, len(c.entries), c.pool.running))
	}
	c.end.Stats = s
	return c.end.Ending
}

// holders returns the numbers of the tasks that hold a slot and do not wait there, sorted.
func (c *Core) holders() []uint64 {
	return slices.DeleteFunc(c.ids(running, decided), func(id uint64) bool { return c.entries[id].slot == nil || c.entries[id].ahead() })
}

// ids returns the numbers of the tasks in any of the states, sorted.
func (c *Core) ids(in ...state) (ids []uint64) {
	for id, e := range c.entries {
		if slices.Contains(in, e.state) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
