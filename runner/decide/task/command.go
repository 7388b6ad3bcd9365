package task

import "errors"

// Op names the operation that a Command asks for.
type Op uint8

// The operations. Which are allowed in which state of a run is in package core's table.
const (
	Drain       Op = iota + 1 // start nothing more; running attempts may finish
	StopReading               // read nothing more, and run everything that was read
	Stop                      // drain, and ask running attempts to end
	Kill                      // stop, and kill running attempts
	Fail                      // drain because crew cannot go on: Err says why; nothing happens once the run drains or is done
	Resize                    // set the number of this machine's slots to N
	Grow                      // add N to the number of this machine's slots
	Join                      // add N slots like Slot, at least one; the run chooses their IDs
	Leave                     // remove slot N; attempts running there may finish
	Pause                     // start nothing until Resume
	Resume                    // undo Pause
	Suspend                   // stop the run's clock and start nothing until Continue
	Continue                  // undo Suspend
	Add                       // admit Tasks, whose IDs ascend and were given by the run or by an earlier one; if N is 0, only if there is room; numbers up to N count as given
	Cancel                    // end the tasks that are named
	Retry                     // start the next attempt of the tasks IDs now, or run them again if they have failed
	Look                      // reply with a Snapshot
	Explain                   // reply with what is known of the tasks IDs or, without any, of the first N that Only selects
	Hold                      // keep the waiting tasks IDs from starting until Release
	Release                   // undo Hold, or let waiting tasks IDs start before their time
	Move                      // have the waiting tasks IDs start before all others if N is negative, or else after them
	Find                      // reply with the tasks that are named, which must exist
	Unfinished                // reply with those of the tasks IDs that have not ended
	Unused                    // give the numbers IDs, which no task got, to the next tasks
)

// Command is a request to a run. It names tasks by their IDs or, if there are none, all
// unfinished ones with Key or, with All, whatever their key.
type Command struct {
	Op    Op
	N     int
	IDs   []uint64
	Key   string
	All   bool
	Only  string // for Explain: tasks that are "waiting" or "running", or, if empty, both and those that retry can run again
	Kill  bool   // for Cancel: kill attempts instead of asking them to end
	Slot  Slot
	Tasks []*Task

	Succeeded [][2]uint64 // for Add: ranges of the tasks of earlier runs that did, both ends included

	Err    error // for Fail: why; for Cancel, Drain and Stop: who asks for it, or nil, as in "cancelled by ann on web1"
	Signal int   // the signal that caused it, or 0
}

// Reply answers a Command.
type Reply struct {
	Err      error     // why nothing was done, or not all; nil if the command was carried out
	Slots    []int     // for Join: the new slots' IDs
	IDs      []uint64  // of the tasks that the command was carried out for; for Retry their new IDs if they have failed
	Tasks    []*Task   // for Hold, Release and Move: what those are now; for Retry: the new ones, which a fed run is still to Add
	Snapshot *Snapshot // for Look
	Wheres   []Where   // for Explain, one for each ID
	Room     int       // for Add: how many more tasks may be added now
}

// ErrFull is the error of an Add that would exceed Config.Feed.MaxQueued.
var ErrFull = errors.New("the queue is full")
