package task

import "errors"

// Op names the operation that a Command asks for.
type Op uint8

// The operations. A table in package core lists the operations that each state of a run allows.
const (
	Drain       Op = iota + 1 // start nothing more; running attempts may finish
	StopReading               // read nothing more, and run all tasks that were read
	Stop                      // drain, and ask running attempts to end
	Kill                      // stop, and kill running attempts
	Fail                      // drain because crew cannot continue: Err says why; no effect once the run drains or is done
	Resize                    // set the number of this machine's slots to N
	Grow                      // add N to the number of this machine's slots
	Join                      // add N slots like Slot, at least one; the run chooses their IDs
	Leave                     // remove slot N; attempts running there may finish
	Pause                     // start nothing until Resume
	Resume                    // undo Pause
	Suspend                   // stop the run's clock and start nothing until Continue
	Continue                  // undo Suspend
	Add                       // admit Tasks, with ascending IDs from this run or an earlier one; if N is 0, only if there is room; IDs up to N count as used
	Cancel                    // end the named tasks
	Retry                     // start the next attempt of the tasks IDs now, or run failed ones again
	Look                      // reply with a Snapshot
	Explain                   // reply with the state of the tasks IDs or, without IDs, of the first N that Only selects
	Hold                      // keep the waiting tasks IDs from starting until Release
	Release                   // undo Hold, or let the waiting tasks IDs start before their time
	Move                      // make the waiting tasks IDs start before all others if N is negative, otherwise after them
	Find                      // reply with the named tasks, which must exist, in IDs, and with the unfinished ones in Tasks
)

// Command is a request to a run. It names tasks by IDs or, without IDs, all unfinished tasks with Key
// or, with All, all unfinished tasks.
type Command struct {
	Op     Op
	N      int
	IDs    []uint64
	Key    string
	All    bool
	Unique uint64 // for Find: name the unfinished task with these Terms.Unique, if there is one
	Only   string // for Explain: "waiting" tasks, first to start first, or "running" ones; if empty, both and the failed tasks that Retry can run again
	Kill   bool   // for Cancel: kill attempts instead of asking them to end
	Slot   Slot
	Tasks  []*Task

	Succeeded [][2]uint64 // for Add: ranges of tasks that succeeded in earlier runs, both ends included

	Err    error // for Fail: why; for Cancel, Drain and Stop: as in "cancelled by ann on web1", or nil
	Signal int   // the signal that caused the command, or 0
}

// Reply answers a Command.
type Reply struct {
	Err      error     // why the command was not carried out, or only in part; nil if it was
	Slots    []int     // for Join: the new slots' IDs
	IDs      []uint64  // the tasks concerned; for Retry, new IDs of failed tasks
	Tasks    []*Task   // for Find: the unfinished tasks; for Hold, Release and Move: the changed ones; for Retry: the new ones, which a fed run must still Add
	Snapshot *Snapshot // for Look
	Wheres   []Where   // for Explain: one for each ID
	Room     int       // for Add: how many more tasks may be added now
	Last     uint64    // for Add: the highest ID that counts as used
}

// ErrFull is the error of an Add that would exceed Config.Feed.MaxQueued.
var ErrFull = errors.New("the queue is full")
