package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// state is the state of a task.
type state uint8

const (
	nowhere   state = iota // not admitted, or finished
	queued                 // to start
	parked                 // until others of its key have ended
	following              // waiting for the tasks that it comes after
	held                   // waiting to be released
	timed                  // waiting for its time, by the machine's clock
	checking               // being checked, since it may be up to date
	delayed                // waiting for its next attempt
	running                // in a slot
	decided                // its end is being recorded; a task that ran still holds its slot
	states
)

// entry is an unfinished task.
type entry struct {
	task *task.Task
	item sched.Item
	size int

	state     state
	cancelled error        // why a command has cancelled it; nil if none has
	checked   bool         // it has to run, even if it makes files
	hasTurn   bool         // those before it of its key have ended, under a serial policy
	awaits    int          // how many tasks it waits for; if not 0, it is following
	followers []uint64     // those that come after it
	due       time.Time    // when the next attempt may start; zero for the first
	result    *task.Result // if decided
	again     bool         // if decided: another attempt follows

	attempt
	history
}

// attempt is the running attempt of a task, or the last one.
type attempt struct {
	slot         *task.Slot // the slot that the task holds; nil if none
	number       int
	begunAt      time.Time // when it began, on the machine's clock
	begunRun     time.Time // the same on the run's clock; zero until then
	ladder       task.Ladder
	units        []task.Units // that it holds
	tag          any          // Start.Tag
	recalled     bool         // it is to be given back if it has not begun
	startPending bool         // Began is still to come
}

// history tells of the earlier attempts of a task.
type history struct {
	failures int            // failed attempts; each used up a retry
	replaced int            // attempts of this run that were lost after they had begun, or ended for memory; none used up a retry
	returned int            // attempts that came back without having begun
	cameBack bool           // the latest one did
	before   []*task.Result // the attempts that failed, were lost or ended for memory, without those that had not begun
	omitted  int            // those that before leaves out
}

// sentAhead reports whether the attempt waits at its slot until those before have ended.
func (e *entry) sentAhead() bool { return e.slot != nil && e.begunRun.IsZero() }

// toAttempt returns the attempt as the executor gets it.
func (e *entry) toAttempt() task.Attempt {
	return task.Attempt{Task: e.task, Number: e.number, Slot: *e.slot, Units: e.units}
}

// endResult returns the result of a task that ends without another attempt.
func (e *entry) endResult(o task.Outcome, err error, now time.Time) *task.Result {
	return &task.Result{Task: e.task, Attempt: e.number, Outcome: o, Err: err, Before: e.before, Omitted: e.omitted, End: now}
}

// cancelResult returns the result of an attempt that the run ends by itself.
func (e *entry) cancelResult(err error, now time.Time) *task.Result {
	return &task.Result{
		Task: e.task, Attempt: e.number, Worker: e.slot.ID, Host: e.slot.Host, Units: e.units, Outcome: task.Cancelled, Err: err, End: now,
	}
}

// where describes the attempt of a task that holds a slot.
func (e *entry) where() task.Where {
	w := task.WhereOf("running", e.task)
	w.Attempt, w.Worker, w.Host, w.Units, w.Start = e.number, e.slot.ID, task.Bytes(e.slot.Host), e.units, e.begunAt
	return w
}
