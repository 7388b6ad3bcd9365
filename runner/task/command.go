package task

// Op is what a Command asks for.
type Op uint8

// The operations. Each is allowed in every state of a run and from any source.
const (
	Drain    Op = iota + 1 // start nothing more; running attempts may finish
	Stop                   // drain, and ask running attempts to end
	Kill                   // stop, and kill running attempts
	Resize                 // set the number of this machine's slots to N
	Grow                   // add N to the number of this machine's slots
	Join                   // add Slot; the run chooses its ID
	Leave                  // remove slot N; attempts running there may finish
	Pause                  // start nothing until Resume
	Resume                 // undo Pause
	Suspend                // stop the run's clock and start nothing until Continue
	Continue               // undo Suspend
	Cancel                 // end task ID
	Look                   // reply with a Snapshot
)

// Command is a request to a run.
type Command struct {
	Op     Op
	N      int
	ID     uint64
	Slot   Slot
	Signal int // the signal that caused it, or 0
}

// Reply answers a Command.
type Reply struct {
	Err      error     // why nothing was done; nil if the command was carried out
	Slot     int       // for Join: the new slot's ID
	Snapshot *Snapshot // for Look
}
