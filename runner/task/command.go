package task

import "errors"

// Op names the operation that a Command asks for.
type Op uint8

// The operations. Which are allowed in which state of a run is in package core's table.
const (
	Drain    Op = iota + 1 // start nothing more; running attempts may finish
	Rest                   // read nothing more, and run everything that was read
	Stop                   // drain, and ask running attempts to end
	Kill                   // stop, and kill running attempts
	Fail                   // drain because crew cannot go on: Err says why; nothing happens once the run drains or is done
	Resize                 // set the number of this machine's slots to N
	Grow                   // add N to the number of this machine's slots
	Join                   // add N slots like Slot, at least one; the run chooses their IDs
	Leave                  // remove slot N; attempts running there may finish
	Pause                  // start nothing until Resume
	Resume                 // undo Pause
	Suspend                // stop the run's clock and start nothing until Continue
	Continue               // undo Suspend
	Add                    // admit Tasks, whose IDs ascend and exceed those of all tasks before; if N is 0, only if there is room; numbers up to N count as given
	Cancel                 // end the tasks IDs or, without any, those with Key
	Retry                  // start the next attempt of the tasks IDs now, or run them again if they have failed
	Look                   // reply with a Snapshot
	Explain                // reply with what is known of the tasks IDs or, without any, of the first that run, wait or failed
)

// Command is a request to a run.
type Command struct {
	Op     Op
	N      int
	IDs    []uint64
	Key    string
	Kill   bool // for Cancel: kill attempts instead of asking them to end
	Slot   Slot
	Tasks  []*Task
	Err    error
	Signal int // the signal that caused it, or 0
}

// Reply answers a Command.
type Reply struct {
	Err      error     // why nothing was done, or not all; nil if the command was carried out
	Slots    []int     // for Join: the new slots' IDs
	IDs      []uint64  // for Cancel: the tasks that end; for Retry: those that run, by their new IDs if they have failed
	Snapshot *Snapshot // for Look
	Wheres   []Where   // for Explain, one for each ID
	Room     int       // for Add: how many more tasks may be added now
}

// ErrFull is the error of an Add that would exceed Config.Feed.MaxQueued.
var ErrFull = errors.New("the queue is full")
