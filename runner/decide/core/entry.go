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
	queued                 // waiting for a slot
	parked                 // chosen by the policy, but waiting for a limit
	following              // waiting for the tasks that it comes after
	held                   // until task.Release
	timed                  // until its start time, on the machine's clock
	checking               // being checked for being up to date
	delayed                // waiting for its next attempt
	running                // in a slot
	decided                // its result is being recorded; if it ran, it still holds its slot
	states
)

// entry is an unfinished task.
type entry struct {
	task *task.Task
	item sched.Item
	size int

	timer sched.Timer // in queue.due

	state     state
	cancelled error        // why a command cancelled it; nil if none did
	checked   bool         // the check of its files has shown that it must run
	hasTurn   bool         // under a serial policy: the tasks of its key before it have ended
	awaits    int          // unfinished tasks that it comes after
	followers []uint64     // tasks that come after it
	nth       int64        // which push to the queue its latest was
	due       time.Time    // earliest start of the next attempt; zero for the first
	result    *task.Result // while decided
	again     bool         // while decided: another attempt follows

	attempt
	history
}

// attempt is the running attempt of a task, or the last one.
type attempt struct {
	slot         *task.Slot // the slot that the task holds; nil if none
	number       int
	begunAt      time.Time    // when it began, on the machine's clock
	begunRun     time.Time    // the same on the run's clock; zero until it begins
	asked        bool         // to end
	units        []task.Units // held units
	tag          any          // Start.Tag
	recalled     bool         // the executor was asked to give it back unless it has begun
	startPending bool         // Began has not reported it yet
}

// history sums up the earlier attempts of a task.
type history struct {
	failures int            // failed attempts; each used up a retry
	replaced int            // attempts of this run that were lost after they had begun, or ended for memory; they used up no retry
	returned int            // attempts that came back without having begun
	cameBack bool           // the latest attempt came back like that
	before   []*task.Result // results of the attempts that failed, were lost or ended for memory
	omitted  int            // such attempts that before leaves out
}

// sentAhead reports whether the attempt waits at its slot until the attempts before it have ended.
func (e *entry) sentAhead() bool { return e.slot != nil && e.begunRun.IsZero() }

// toAttempt returns the attempt in the executor's form.
func (e *entry) toAttempt() task.Attempt {
	return task.Attempt{Task: e.task, Number: e.number, Slot: *e.slot, Units: e.units}
}

// endResult returns the result of a task that ends without another attempt.
func (e *entry) endResult(o task.Outcome, err error, now time.Time) *task.Result {
	return &task.Result{Task: e.task, Attempt: e.number, Outcome: o, Err: err, Before: e.before, Omitted: e.omitted, End: now}
}

// describe returns a description of the attempt of a task that holds a slot. now is the run's time.
func (e *entry) describe(now time.Time) task.Where {
	w := task.NewWhere("running", e.task)
	w.Attempt, w.Worker, w.Host, w.Units, w.Start = e.number, e.slot.ID, task.Bytes(e.slot.Host), e.units, e.begunAt
	w.Duration = task.Seconds(now.Sub(e.begunRun))
	return w
}
