package runner

import (
	"errors"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// Config says how a run goes.
type Config struct {
	Pool      Pool
	Order     Order
	Retry     Retry
	Halt      Halt
	KillAfter time.Duration // how long a stopped run waits for a reader of its output
	Tick      time.Duration // how often sinks get an empty batch when nothing happens; 0 is never
	Explain   bool          // say what the input waits for when it stands still beside idle workers

	// SameCommand says that all tasks have one command: where it cannot be
	// executed for one it cannot for any, and the run stops.
	SameCommand bool
}

// Pool says how many tasks run and which comes next.
type Pool struct {
	Workers int
	Policy  sched.Policy
	Buffer  int           // tasks read ahead of the workers
	PerKey  int           // running tasks of one key at most; 0 is any number
	Delay   time.Duration // between starts
	Procs   int           // processors, for topics that share the workers out by themselves; 0 leaves them be
}

// Order says when results are released.
type Order struct {
	Keep   bool
	Window int // with Keep: how many tasks may be admitted past the first unreleased one
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

// Ending is how a run ended.
type Ending struct {
	Stats task.Stats
	// Err is why crew could not go on: the input or an output broke. More is
	// what went wrong after that and was not said yet.
	Err  error
	More []error
	// Signal is the last signal that asked for the end, or 0.
	Signal int
	// BadCommand is the first result of a command that cannot be executed for
	// any task.
	BadCommand *task.Result
	// Halted is the result that made Config.Halt true.
	Halted *task.Result
	// Abandoned is how many attempts did not end although they were killed: they
	// wait for somebody to take their output, or in the kernel.
	Abandoned int
	// Unshown is true where the run's output was given up because nobody read
	// it and the run was told to end.
	Unshown bool
}
