package task

// Op is what a Command asks for.
type Op uint8

// The operations. Each is allowed in every state of a run and from any source.
const (
	Drain    Op = iota + 1 // start nothing more, let what runs finish
	Stop                   // end what runs, with its grace
	Kill                   // end what runs at once
	Resize                 // have N slots on this machine
	Grow                   // have N slots more on this machine, or fewer where N is negative
	Join                   // a slot joins; its ID is given by the run
	Leave                  // slot N takes no more attempts
	Pause                  // start nothing, stop nothing
	Resume                 // the end of Pause
	Suspend                // the run's clock stops and nothing starts; the tasks are being stopped
	Continue               // the end of Suspend
	Cancel                 // end task ID, wherever it is
	Look                   // nothing but the reply, which has a Snapshot
)

// Command asks something of a running run.
type Command struct {
	Op     Op
	N      int
	ID     uint64
	Slot   Slot
	Signal int // the signal that it came from, or 0
}

// Reply answers a Command.
type Reply struct {
	Err      error     // why nothing was done; nil where the command was carried out
	Slot     int       // the ID of the slot that joined
	Snapshot *Snapshot // of Look
}
