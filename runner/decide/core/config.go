package core

import (
	"errors"
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// Config configures a run.
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
	Remote  bool          // there are none, but slots of other machines join and leave; the executor ends attempts at their timeouts
	Window  int           // attempts that a slot of this machine runs at once; less than 1 is 1
	Ahead   int           // attempts that a slot of another machine holds beside the one that runs there, and runs in turn; with it, PerKey, Caps, rates and weights must not limit starts
	Delay   time.Duration // between two starts
	Jitter  time.Duration // before the first start
	Told    bool          // Began tells when attempts start, for Delay, Rate and KeyRate
	Tokens  Tokens        // the places for attempts are shared with other programs; nil if they are not
	Machine Machine       // holds starts back
}

// Machine configures when too much is going on on this machine to start more. One attempt may
// always run. With a bound, Effects.Sample asks for the figures.
type Machine struct {
	Load   float64 // nothing starts unless fewer processes have something to do; 0 for no bound
	Memory int64   // nothing starts unless so many bytes are free; 0 for no bound
	End    bool    // the attempt that has started last is ended, and made again, while less than half of Memory is free
}

// Queue configures which tasks wait, and which of them is next.
type Queue struct {
	Policy sched.Policy // without slots: the run adds them
	PerKey int          // running tasks of one key at most; 0 for no limit
	Terms  bool         // tasks can come after others, and have priorities
	Buffer int          // tasks to read ahead at most; with Pool.Remote, twice the slots if that is more
	Bytes  int          // their size at most, except for the first few tasks; 0 for no limit
	Few    int          // how many these are; 0 for as many as are no burden

	Caps    []task.Cap // limits by name, which task.Terms.Needs goes by; in order of name; with Pool.Remote, other names are of what hosts offer
	Rate    task.Rate  // of all starts
	KeyRate task.Rate  // of the starts of each key
}

// Order configures the order of results.
type Order struct {
	Keep   bool // release results in input order
	Window int  // with Keep: tasks to admit at most, counted from the first unreleased one
}

// Limit limits the time of an attempt, and that of the run, which has one of two
// limits at most.
type Limit struct {
	Timeout   time.Duration // 0 for none
	Idle      time.Duration // for which it writes nothing; 0 for no limit
	KillAfter time.Duration // from asking an attempt to end to killing it; also from the end of the run's time to asking
	Run       time.Duration // of the run; 0 for none
	Until     time.Time     // when the run's time is over, by the machine's clock, however long it was suspended; zero for never
}

// Retry configures the attempts after a failed one.
type Retry struct {
	Max      int           // attempts after the first
	Delay    time.Duration // before the first retry; doubles with each
	MaxDelay time.Duration
	On       func(*task.Result) bool // whether to retry a failure; nil for always
	Jitter   func() float64          // uniform in [0,1)
	Keep     bool                    // keep outputs of failed attempts open until the task is finished
}

// Halt configures when the run ends early or pauses. The zero value is never. Results
// of an earlier run (task.Task.Done) do not count.
type Halt struct {
	When    When
	On      On
	N       int
	Percent bool   // N is a percentage of Tasks
	Tasks   uint64 // number of tasks in the input

	// SameCommand means that all tasks have the same command: if it cannot be
	// executed for one task, the run ends.
	SameCommand bool
}

// Feed configures what commands do with tasks.
type Feed struct {
	Open      bool          // tasks come by task.Add, and the Source has none
	MaxQueued int           // waiting tasks at most, or task.Add is refused; 0 for no limit
	IdleExit  time.Duration // end the run after so long without a task, counted from the first task.Add; 0 for never
	Remember  bool          // remember tasks that have failed, so that task.Retry can run them again
}

// When is how a run halts, by the word that --halt has for it.
type When string

// The ways to halt.
const (
	Never When = ""
	Soon  When = "soon"  // drain
	Now   When = "now"   // stop
	Pause When = "pause" // start nothing until task.Resume, and then count anew
)

// On is the kind of result that a halt counts, by the word that --halt has for it.
type On string

// The kinds of result.
const (
	OnFail    On = "fail"
	OnSuccess On = "success"
	OnDone    On = "done"
)

// String returns h, which is not zero, as the value of --halt.
func (h Halt) String() string {
	share := ""
	if h.Percent {
		share = "%"
	}
	return fmt.Sprintf("%s,%s=%d%s", h.When, h.On, h.N, share)
}

// Paced reports whether starts have to keep apart.
func (c Config) Paced() bool {
	return c.Pool.Delay > 0 || c.Queue.Rate.N > 0 || c.Queue.KeyRate.N > 0
}

// Validate returns an error if no run is possible with c.
func (c Config) Validate() error {
	switch {
	case c.Pool.Workers < 1 && !c.Pool.Remote:
		return errors.New("a pool needs a worker")
	case c.Queue.Policy == nil:
		return errors.New("a queue needs a policy")
	case c.Queue.Buffer < 1:
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

// Reason is why a run ended. Reasons are ordered, and the worst one counts.
type Reason uint8

// The reasons, from good to bad.
const (
	Completed  Reason = iota // every task of the input had its turn
	Halted                   // Config.Halt
	Late                     // Limit.Run or Limit.Until
	BadCommand               // the command of all tasks cannot be executed
	Unread                   // nobody reads stdout any more
	Told                     // a command or a signal
	Broken                   // the input or an output failed
)

// Ending is how a run ended.
type Ending struct {
	Reason Reason
	Stats  task.Stats
	Err    error        // if Broken or Unread: the first error of that kind; if Told: the Err of the latest command that had one
	More   []error      // later errors that no sink has shown
	Signal int          // if Told: the last signal that asked for the end, or 0
	Result *task.Result // if Halted or BadCommand: the result that decided it

	// Interrupted means that the signal was sent to a task (task.Result.Interrupted),
	// and not to crew's process group.
	Interrupted bool
	// Abandoned is the number of attempts that did not end although they were
	// killed: they are stuck in the kernel, or wait for a reader of their output.
	Abandoned int
	// Unshown means that the run was told to end and gave up its output because
	// nobody read it.
	Unshown bool
}
