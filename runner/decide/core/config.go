package core

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// Config configures a run. It needs a worker unless Pool.Remote is set, a policy, room for a task in
// Queue.Buffer and, with Order.Keep, in Order.Window, and Retry.Jitter if there are retries.
type Config struct {
	Pool  Pool
	Queue Queue
	Order Order
	Limit Limit
	Retry Retry
	Halt  Halt
	Feed  Feed
	Tick  time.Duration // interval of empty batches for the sinks; 0 for none
}

// Pool configures the slots.
type Pool struct {
	Workers int           // slots on this machine
	Remote  bool          // slots of other machines join and leave, and Workers is ignored
	Window  int           // attempts that a slot of this machine runs at once; less than 1 counts as 1
	Ahead   int           // attempts sent to a remote slot beside the running one; PerKey, Caps, rates and weights must not limit starts then
	Delay   time.Duration // minimum time between two starts
	Jitter  time.Duration // time before the first start
	Tokens  Tokens        // other programs share the places for attempts; nil if they do not
	Machine Machine
}

// Executor says how the executor of the run works.
type Executor struct {
	Streams       bool // it is a Streamer, which serves the slots
	ReportsStarts bool // Began reports when attempts have started, for Delay, Rate and KeyRate
}

// Machine holds starts back while this machine is too busy. One attempt may always run. With a
// bound, Effects.Sample asks for the figures.
type Machine struct {
	Load   float64 // start only while fewer processes than this have work to do; 0 for no bound
	Memory int64   // start only while this many bytes are free; 0 for no bound
	End    bool    // while less than half of Memory is free, end the attempt that started last, and run it again later
}

// Queue configures which tasks are read ahead, and how they start.
type Queue struct {
	Policy sched.Policy // has no slots yet
	PerKey int          // tasks of one key that run at once; 0 for no limit
	Terms  bool         // tasks may come after others, and have priorities
	Buffer int          // tasks to read ahead; with Pool.Remote, at least twice the number of slots
	Bytes  int          // total size of the tasks to read ahead; 0 for no limit
	Few    int          // tasks that may be read ahead whatever their size; 0 for the default

	Caps    []task.Cap // limits by name, sorted, for task.Terms.Needs; with Pool.Remote, other names are offered by hosts
	Rate    task.Rate  // of all starts
	KeyRate task.Rate  // of the starts of each key
}

// Order configures the order of results.
type Order struct {
	Keep   bool // release results in input order
	Window int  // with Keep: how many tasks may be admitted from the first unreleased one on, whatever Queue.Buffer is; wiring sets 1<<20
}

// Limit limits the time of each attempt and of the run. At most one of Run and Until is set.
type Limit struct {
	task.Limit               // which the executor enforces; KillAfter also passes from the run's deadline until attempts are asked to end
	Run        time.Duration // of the run; 0 for none
	Until      time.Time     // deadline of the run on the machine's clock, not moved by suspension; zero for none
}

// Retry configures the attempts that follow a failed one.
type Retry struct {
	Max      int           // attempts after the first
	Delay    time.Duration // before the first retry; doubles with each
	MaxDelay time.Duration
	On       func(*task.Result) bool // whether to retry a failure; nil for always
	Jitter   func() float64          // returns a number in [0,1), uniformly
	Keep     bool                    // keep the outputs of failed attempts open until the task is finished
}

// Halt says when the run ends early or pauses. The zero value means never. Results of an earlier
// run (task.Task.Done) do not count.
type Halt struct {
	When    When
	On      On
	N       int
	Percent bool   // N is a percentage of Tasks
	Tasks   uint64 // number of tasks in the input

	// SameCommand means that all tasks run the same command, so the run ends if it cannot be
	// executed.
	SameCommand bool
}

// Feed configures how commands add tasks and run them again.
type Feed struct {
	Open      bool          // tasks come by task.Add; the Source yields none
	MaxQueued int           // task.Add is refused if more tasks than this would wait; 0 for no limit
	IdleExit  time.Duration // end the run after this long without a task, once task.Add has come; 0 for never
	Remember  bool          // remember failed tasks, so that task.Retry can run them again
}

// When is how a run halts, spelled as in --halt.
type When string

// The ways to halt.
const (
	Never When = ""
	Soon  When = "soon"  // drain
	Now   When = "now"   // stop
	Pause When = "pause" // start nothing until task.Resume, and then count anew
)

// On is the kind of result that a halt counts, spelled as in --halt.
type On string

// The kinds of result.
const (
	OnFail    On = "fail"
	OnSuccess On = "success"
	OnDone    On = "done"
)

// String returns h in the form of --halt. h must not be zero.
func (h Halt) String() string {
	share := ""
	if h.Percent {
		share = "%"
	}
	return fmt.Sprintf("%s,%s=%d%s", h.When, h.On, h.N, share)
}

// Paced reports whether starts are spaced in time.
func (c Config) Paced() bool {
	return c.Pool.Delay > 0 || c.Queue.Rate.N > 0 || c.Queue.KeyRate.N > 0
}

// Reason is why a run ended. Reasons are ordered: the highest one counts.
type Reason uint8

// The reasons, from good to bad.
const (
	Completed  Reason = iota // the input ended, and every task had its turn
	Halted                   // Config.Halt
	Late                     // Limit.Run or Limit.Until
	BadCommand               // the command of all tasks cannot be executed
	PipeClosed               // the reader of stdout has gone
	Requested                // a command or a signal asked for it
	Broken                   // the input or an output failed
)

// Ending is how a run ended.
type Ending struct {
	Reason Reason
	Stats  task.Stats
	Err    error        // for Broken and PipeClosed: the first such error; for Requested: the error of the latest command that had one
	More   []error      // later errors that no sink has shown
	Signal int          // for Requested: the last signal that asked for the end, or 0
	Result *task.Result // for Halted and BadCommand: the result that decided it

	// Interrupted means that the signal went to a task (task.Result.Interrupted), not to crew's
	// process group.
	Interrupted bool
	// Abandoned counts the attempts that were killed and still did not end: they are stuck in the
	// kernel, or wait for a reader of their output.
	Abandoned int
	// Unshown means that the run was asked to end and dropped the rest of its output, since its
	// reader did not take it.
	Unshown bool
}
