package runner

import (
	"errors"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// Config says how a run goes.
type Config struct {
	Pool  Pool
	Order Order
	Limit Limit
	Retry Retry
	Halt  Halt
	Tick  time.Duration // how often sinks get an empty batch when nothing happens; 0 is never

	// SameCommand says that all tasks have one command: where it cannot be
	// executed for one it cannot for any, and the run stops.
	SameCommand bool
}

// Pool says how many tasks run and which comes next.
type Pool struct {
	Workers int          // slots on this machine
	Policy  sched.Policy // without slots; the run has them join
	Buffer  int          // tasks read ahead
	Bytes   int          // of these, past the first few, at most so many bytes; 0 is any number
	PerKey  int          // running tasks of one key at most; 0 is any number
	Delay   time.Duration
	Procs   int // processors, for topics that share the slots out by themselves; 0 leaves them be
}

// Order says when results are released.
type Order struct {
	Keep   bool
	Window int // with Keep: how many tasks may be admitted past the first unreleased one
}

// Limit says how long an attempt may take.
type Limit struct {
	Timeout   time.Duration // 0 is any time
	KillAfter time.Duration // how long an attempt that is being ended has until it is killed
}

// Retry says when a failed attempt is followed by another.
type Retry struct {
	Max      int           // attempts after the first
	Delay    time.Duration // before the first of them, doubling with each
	MaxDelay time.Duration
	On       func(*task.Result) bool // which failures are worth it; nil is all
	Jitter   func() float64          // uniform in [0,1)
	Keep     bool                    // the outputs of failed attempts stay open until the task is finished
}

// Halt says when the run stops early. The zero value is never. Results of an
// earlier run (task.Task.Done) do not count.
type Halt struct {
	When    When
	On      On
	N       int
	Percent bool   // N is a percentage of all tasks
	Tasks   uint64 // how many these are
}

// When is how a halted run stops.
type When uint8

// The ways to halt.
const (
	Never When = iota
	Soon       // start nothing more, let what runs finish
	Now        // end what runs, too
)

// On is what a halt counts.
type On uint8

// What can be counted.
const (
	OnFail On = iota
	OnSuccess
	OnDone
)

// Validate says what does not make a run.
func (c Config) Validate() error {
	switch {
	case c.Pool.Workers < 1:
		return errors.New("a pool needs a worker")
	case c.Pool.Policy == nil:
		return errors.New("a pool needs a policy")
	case c.Pool.Buffer < 1:
		return errors.New("the read-ahead needs room for a task")
	case c.Order.Keep && c.Order.Window < 1:
		return errors.New("the window needs room for a task")
	case c.Retry.Max > 0 && c.Retry.Jitter == nil:
		return errors.New("retries need a source of jitter")
	case c.Halt.When != Never && c.Halt.N < 1:
		return errors.New("a halt needs a number")
	}
	return nil
}

// Reason is why a run ended. They are in order: the worst one that applies is
// the run's.
type Reason uint8

// The reasons, from good to bad.
const (
	Completed  Reason = iota // the input came to its end, and every task had its turn
	Halted                   // Config.Halt
	BadCommand               // the command of all tasks cannot be executed
	Told                     // a command or a signal asked for the end
	Unread                   // nobody reads stdout any more
	Broken                   // crew itself could not go on: the input or an output broke
)

// Ending is how a run ended.
type Ending struct {
	Reason Reason
	Stats  task.Stats
	Err    error        // of Broken and Unread; the first one of the worst
	More   []error      // what went wrong after that and was not said yet
	Signal int          // of Told: the last signal that asked for the end, or 0
	Result *task.Result // of Halted and BadCommand: the result that decided it

	// Abandoned is how many attempts did not end although they were killed: they
	// wait for somebody to take their output, or in the kernel.
	Abandoned int
	// Unshown is true where the run's output was given up because nobody read
	// it and the run was told to end.
	Unshown bool
}
