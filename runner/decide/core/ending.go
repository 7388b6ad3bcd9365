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
	// endMargin is added to the tasks' grace period when the run is asked to end: time for the
	// kernel to end them, and for a reader to take the rest of the output.
	endMargin = time.Second
	// A run that has lost its reader waits for a signal: Ctrl-C reaches every process of a
	// pipeline, and the reader may die before crew gets the signal. The run waits for one
	// closedPipeTick or, if tasks are running, for maxClosedPipeTicks, since a busy machine can take
	// long to deliver a signal.
	closedPipeTick     = 10 * time.Millisecond
	maxClosedPipeTicks = 30
	// clockCheckEvery is how often the core checks the machine's clock while something waits for a
	// time on it: the clock can be set, and it runs while the machine sleeps.
	clockCheckEvery = time.Minute
	// sigpipe is the reason in the events of a run that has lost its reader.
	sigpipe = "SIGPIPE"
)

var (
	errStopped   = errors.New("the run ends")
	errAbandoned = errors.New("did not end in time")
)

// phase is how far the run has come towards its end. It never decreases.
type phase uint8

const (
	going    phase = iota
	draining       // nothing more starts; running attempts may finish
	stopping       // running attempts are asked to end
	killing        // running attempts are killed
)

// end is the state of the run's ending.
type end struct {
	Ending
	phase           phase
	sealed          bool         // every task has its result, and no more are admitted
	shown           bool         // the sinks are closed
	haltCount       int64        // results that count for Config.Halt
	haltResult      *task.Result // the latest of these results
	haltBase        int64        // haltCount when the last pause by Config.Halt ended
	giveUpAt        time.Time    // when to stop waiting for attempts and for the reader; zero for never
	closedPipeAt    time.Time    // when the next closedPipeTick is over; zero for never
	closedPipeTicks int          // ticks since the run lost its reader
	deadlineAt      time.Time    // when handleDeadline takes its next step; zero for never
	deadlinePassed  bool
	stopText        string // of the latest Stopping event
}

// setReason notes why the run ends, unless the reason known so far is as bad or worse.
func (d *end) setReason(why Reason, r *task.Result, err error) {
	if d.Reason < why {
		d.Reason, d.Result, d.Err = why, r, err
	}
}

// noteInterrupt drains the run if the user interrupted the attempt.
func (c *Core) noteInterrupt(r *task.Result) {
	if r.Interrupted {
		c.end.Interrupted = true
		c.endByCommand(task.Command{Op: task.Drain, Signal: r.Signal})
	}
}

// checkHalt ends or pauses the run once enough results count for Config.Halt. r is the latest
// result; nil if no result was added.
func (c *Core) checkHalt(r *task.Result) {
	h, d := c.cfg.Halt, &c.end
	if h.When == Never || h.When != Pause && d.Reason >= Halted {
		return
	}
	s := c.output.stats.WithoutEarlier()
	n := s.Failed()
	switch h.On {
	case OnSuccess:
		n = s.ByOutcome[task.OK]
	case OnDone:
		n = s.Done()
	}
	if n > d.haltCount {
		d.haltCount, d.haltResult = n, r
	}
	n -= d.haltBase
	enough := n >= int64(h.N)
	if h.Percent {
		of := int64(h.Tasks) - c.output.stats.Resumed() // as far as the tasks have been read
		enough = of > 0 && n*100 >= int64(h.N)*of
	}
	if !enough {
		return
	}
	if h.When == Pause {
		c.queue.paused, c.queue.halted = true, true
		return
	}
	d.setReason(Halted, d.haltResult, nil)
	to := draining
	if h.When == Now {
		to = stopping
	}
	c.advanceTo(to, "--halt")
}

// endByCommand carries out a Drain, Stop or Kill.
func (c *Core) endByCommand(cmd task.Command) {
	d := &c.end
	again := d.phase == draining && d.Reason < Requested // it drains for another reason
	d.setReason(Requested, nil, nil)
	d.closedPipeAt = time.Time{}
	if cmd.Signal != 0 {
		d.Signal = cmd.Signal
	}
	why := unix.SignalName(syscall.Signal(cmd.Signal)) // "" for none
	if cmd.Err != nil {
		why = cmd.Err.Error()
	}
	if d.Reason == Requested {
		d.Err = cmp.Or(cmd.Err, d.Err)
	}
	if d.phase >= stopping && c.pool.running > 0 && cmd.Op == task.Stop && cmd.Signal == int(syscall.SIGINT) {
		cmd.Op = task.Kill // as the event of the first Ctrl-C has said; without tasks, the output would be lost
		if d.stopText != why {
			cmd.Op = task.Drain // that event only follows now
		}
	}
	switch cmd.Op {
	case task.Drain:
		switch {
		case d.phase == stopping:
			c.stopStarting(task.Stopping, why)
		case again:
			c.stopStarting(task.Draining, why)
		}
		c.advanceTo(draining, why)
	case task.Stop:
		c.advanceTo(stopping, why)
		c.limitWait()
	case task.Kill:
		c.advanceTo(killing, why)
		d.giveUpAt = c.run.Add(endMargin)
		if d.sealed {
			c.giveUp()
		}
	}
}

// advanceTo moves the run forward to a phase, and reports why. It does nothing if the run is past
// that phase.
func (c *Core) advanceTo(to phase, why string) {
	from, begins := c.end.phase, to >= stopping && c.end.phase < stopping
	c.end.phase = max(from, to)
	switch {
	case begins && c.pool.running > 0:
		c.stopStarting(task.Stopping, why)
	case from == going:
		c.stopStarting(task.Draining, why)
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

// stopStarting begins a phase without further starts: it emits an event of the given kind, and ends
// all waiting tasks as not run.
func (c *Core) stopStarting(kind task.Kind, why string) {
	c.endFeed()
	waiting := c.ids(queued, parked, following, held, timed, checking, delayed)
	retries := 0
	for _, id := range waiting {
		if len(c.entries[id].before) > 0 {
			retries++
		}
	}
	ids := c.holders()
	if kind == task.Stopping {
		c.end.stopText = why
	}
	c.output.emit(task.Event{Kind: kind, Running: ids[:min(10, len(ids))], Retries: retries, Text: why})
	c.queue.ready.Abandon() // removing thousands of tasks one by one would keep signals waiting
	c.output.events = slices.Grow(c.output.events, 2*len(waiting))
	for _, id := range waiting {
		c.notRun(c.entries[id])
	}
}

// terminate asks a running task to end, once. The executor kills it if it does not.
func (c *Core) terminate(e *entry, cause error) {
	if !e.asked && !c.cancelUntaken(e, cause) {
		e.asked = true
		c.sendStop(e, cause)
	}
}

// kill kills a running task.
func (c *Core) kill(e *entry) {
	c.terminate(e, errStopped)
	if e.state == running {
		c.sendStop(e, nil)
	}
}

func (c *Core) sendStop(e *entry, cause error) {
	c.fx.Stops = append(c.fx.Stops, Stop{Slot: e.slot.ID, Task: e.item.ID, Attempt: e.number, Cause: cause, Tag: e.tag})
}

// Abort ends the run because of an error of crew itself, or because of EPIPE: stdout has lost its
// reader. Running attempts may finish, but after EPIPE only if the run was draining already. Once
// the run is sealed, events no longer reach the sinks, so later errors go to Ending.More.
func (c *Core) Abort(err error) {
	d := &c.end
	switch {
	case errors.Is(err, syscall.EPIPE): // handleClosedPipe stops the run
		if d.Reason < PipeClosed && d.phase < draining {
			d.closedPipeAt = c.run.Add(closedPipeTick)
		}
		d.setReason(PipeClosed, nil, err)
		c.advanceTo(draining, sigpipe)
		return
	case d.Reason < Broken:
		d.setReason(Broken, nil, err)
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
	c.advanceTo(draining, why)
}

// handleClosedPipe acts at the end of each closedPipeTick.
func (c *Core) handleClosedPipe() {
	d := &c.end
	if d.closedPipeTicks++; c.pool.running > 0 && d.closedPipeTicks < maxClosedPipeTicks {
		d.closedPipeAt = c.run.Add(closedPipeTick)
		return
	}
	d.closedPipeAt = time.Time{}
	c.advanceTo(stopping, sigpipe)
	c.limitWait()
}

// handleDeadline drains a run whose time is over. Limit.KillAfter later it asks the remaining
// attempts to end.
func (c *Core) handleDeadline() {
	d := &c.end
	if c.untilPending() {
		d.deadlineAt = c.run.Add(c.cfg.Limit.Until.Sub(c.now))
	}
	switch {
	case !c.reached(d.deadlineAt):
	case d.sealed:
		d.deadlineAt = time.Time{}
	case !d.deadlinePassed:
		d.deadlinePassed, d.deadlineAt = true, c.run.Add(c.cfg.Limit.KillAfter)
		d.setReason(Late, nil, nil)
		c.advanceTo(draining, "--deadline")
	default:
		d.deadlineAt = time.Time{}
		c.advanceTo(stopping, "--deadline")
		c.limitWait()
	}
}

// untilPending reports whether Limit.Until is still to come, as far as the core has noticed.
func (c *Core) untilPending() bool {
	return !c.cfg.Limit.Until.IsZero() && !c.end.deadlinePassed && !c.end.sealed
}

// limitWait bounds how long a run that was asked to end may still take. A run that ends by itself
// waits for its tasks and its reader without a bound.
func (c *Core) limitWait() {
	if c.end.giveUpAt.IsZero() {
		grace := c.cfg.Limit.KillAfter
		for _, id := range c.ids(running) {
			grace = max(grace, c.entries[id].task.KillAfter)
		}
		c.end.giveUpAt = c.run.Add(grace + endMargin)
	}
}

// giveUp stops waiting for attempts that should have ended by now or, if none are left, for the
// reader of the output.
func (c *Core) giveUp() {
	d := &c.end
	d.giveUpAt = c.run.Add(endMargin)
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
		if e.state == decided {
			c.applyEnd(e)
			continue
		}
		d.Abandoned++
		r := e.toAttempt().End(task.Cancelled, errAbandoned, c.now)
		r.Start = e.begunAt
		c.finish(e, r)
	}
}

// seal reports whether every task has its result and no more will come. From then on, the run
// admits no more tasks.
func (c *Core) seal() bool {
	d, i := &c.end, &c.input
	ends := (i.over() || d.phase > going) && d.closedPipeAt.IsZero()
	d.sealed = d.sealed || ends && len(c.entries) == 0 && c.pool.streams.serving == 0 &&
		(c.cfg.Feed.Open || uint64(c.output.stats.Admitted) == i.lastID.Load())
	return d.sealed
}

// Shown reports that the sinks are closed.
func (c *Core) Shown() { c.end.shown = true }

// Ending returns how the run ended. It panics unless every admitted task has exactly one outcome.
func (c *Core) Ending() Ending {
	s := c.output.stats
	if s.Finished() != s.Admitted || s.Released != s.Admitted || len(c.entries) != 0 || c.pool.running != 0 {
		panic(fmt.Sprintf("internal error: %d tasks admitted, %d finished, %d released, %d left, %d running",
			s.Admitted, s.Finished(), s.Released, len(c.entries), c.pool.running))
	}
	c.end.Stats = s
	return c.end.Ending
}

// holders returns the IDs of the tasks that hold a slot and have begun, sorted.
func (c *Core) holders() []uint64 {
	return slices.DeleteFunc(c.ids(running, decided), func(id uint64) bool { return c.entries[id].slot == nil || c.entries[id].sentAhead() })
}

// ids returns the IDs of the tasks in any of the given states, sorted.
func (c *Core) ids(in ...state) (ids []uint64) {
	for id, e := range c.entries {
		if slices.Contains(in, e.state) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
