package task

// Op is what a Command asks for.
type Op uint8

// The operations. Each is allowed in every state of a run and from any source.
const (
	Drain  Op = iota + 1 // start nothing more, let what runs finish
	Stop                 // end what runs, with its grace
	Kill                 // end what runs at once
	Resize               // N workers
	Grow                 // N workers more, or fewer where N is negative
	Pause                // start nothing, stop nothing
	Resume               // the end of Pause
	Cancel               // end task ID, wherever it is
)

// Command asks something of a running run. It is a value sent into the loop.
type Command struct {
	Op     Op
	N      int
	ID     uint64
	Signal int // the signal that it came from, or 0
}
