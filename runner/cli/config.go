package cli

import (
	"regexp"
	"time"

	"crew/runner/core"
	"crew/runner/jobserver"
	"crew/runner/task"
	"crew/sched"
)

// Options is a parsed and checked command line. It never leaves this package:
// each other package has a Config of its own.
type Options struct {
	Input   Input
	Command Command
	Coproc  Coproc
	Pipe    Pipe
	Pool    Pool

	Jobserver Jobserver

	Sched   Sched
	Failure Failure
	Output  Output
	Show    Show
	State   State
	Control Control
	Serve   Serve
	Engine  Engine

	uses  []use  // the options given, in order, without those that were dropped
	env   []use  // all options of CREW_OPTS
	share *share // nil until openSource, and for all records
	ask   string // what to print instead of running: askHelp, askVersion or a shell's name
}

const (
	askHelp    = "help"
	askVersion = "version"
)

// Input configures where records come from and how they are cut.
type Input struct {
	Files     []string // read one after another, before the groups; "-" is stdin
	Groups    []Group
	Delim     string         // ends a record; not empty
	Colsep    *regexp.Regexp // separates columns; nil for none
	CSV       bool
	Header    bool
	JSON      bool
	SkipEmpty bool
	EOF       string // record to stop at; "" for none

	Shard      Shard
	ShardTimes string // file with the times of commands; "" for none
}

// Shard is the part of the records that the run takes. The zero Shard is all of them.
type Shard struct{ Number, Of int } // Number from 1

// Command configures the command that runs for a record.
type Command struct {
	Words    []string // empty if each record is a command line
	Literal  bool     // after a --, so that a word such as ; is what it says
	Shell    string   // path of the shell to run it in; "" if only shell syntax calls for one
	Replace  string   // placeholder for the record
	MaxArgs  int      // maximum number of records; 0 for as many as MaxChars allows
	NoArgs   bool     // -n0: the record is not inserted
	MaxChars int      // maximum number of bytes; 0 for the system's limit
	Stdin    bool     // the record goes to the task's standard input
}

// batches reports whether a command can take several records.
func (c Command) batches() bool { return c.MaxArgs != 1 || c.MaxChars > 0 }

// Coproc configures persistent workers, which take the records instead of a command.
type Coproc struct {
	Words    string // the command of each; "" for none
	Protocol task.Protocol
	Window   int            // records in a worker at once
	Eager    bool           // all start at once, not with their first records
	Ready    *regexp.Regexp // matches the line that says that a worker is ready; nil for none
	Start    time.Duration  // time in which that must come; 0 for no limit
	Max      int            // records until a fresh worker takes over; 0 for no limit
	Age      time.Duration  // time until one does; 0 for no limit
}

// Pipe configures how a stream is cut into blocks.
type Pipe struct {
	On         bool
	Block      int64  // bytes; if negative, blocks of a worker; 0 for any size
	Records    int    // in a block; 0 for any number
	Start, End string // of a record; "" for any
}

// Pool configures the workers.
type Pool struct {
	Jobs        int    // number of workers; 0 for a pause, which only JobsFile can ask for
	JobsFile    string // file that Jobs was read from; "" for none
	Buffer      int    // tasks to read ahead
	BufferBytes int    // bytes to read ahead, except for the first few tasks; 0 for no limit
	BufferFew   int    // how many these are; 0 for the run's default
	Delay       time.Duration
	Jitter      time.Duration // the longest wait before the first start
	Workdir     string        // "" for crew's own
	Nice        int           // added to crew's own niceness
	Lock        string        // file that at most one run holds; "" for none
	LockWait    time.Duration
	PTY         bool // tasks write to pseudo-terminals
	TTY         bool // tasks run in the terminal's foreground, one at a time
}

// Jobserver configures with whom the run shares the places for its tasks.
type Jobserver struct {
	Mode  string          // one of sharings
	Style string          // of the one to share, one of styles; "" is auto
	Join  *jobserver.Auth // make's, which the run joins; nil for none
}

// Sched configures the order of tasks and which worker runs them.
type Sched struct {
	Policy string       // one of policies
	Key    string       // template; "" for none
	Cost   string       // template; "" for 1
	Topics sched.Topics // zero for none
	PerKey int          // 0 for no limit

	LongestFirst bool // what took longest in an earlier run goes first
}

// Failure configures timeouts, retries and the early end of a run.
type Failure struct {
	Retries       int
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration // not less than RetryDelay
	RetryOn       RetryOn
	Timeout       time.Duration // 0 for none
	KillAfter     time.Duration // 0 for KILL at once
	Halt          core.Halt     // without Tasks
	Deadline      Deadline      // of the run
}

// Deadline is when a run has to end. One of its two forms at most is not zero.
type Deadline struct {
	After time.Duration // counted from the beginning of the run
	Until time.Time
}

// RetryOn selects the outcomes to retry.
type RetryOn struct {
	Any      bool // every failure
	Exit     []ExitRange
	Outcomes []task.Outcome
}

// ExitRange is the exit statuses from From to To, both included.
type ExitRange struct{ From, To int }

// Output configures where results go.
type Output struct {
	Mode       string // one of modes
	KeepOrder  bool
	FailedOnly bool // show nothing of tasks that succeed, and say nothing of a run of these
	Tag        bool
	TagString  string // template; "" for none
	JSON       bool
	Results    string // directory; "" for none
	Joblog     string // file; "" for none
	Append     bool   // to what the joblog holds
	JUnit      string // file; "" for none
}

// Show configures what people see beside the results.
type Show struct {
	Progress string // one of whens
	CI       string // one of servers
	Quiet    bool
	Verbose  bool
	DryRun   bool
}

// State configures the journal.
type State struct {
	Dir         string // "" for none
	Replay      bool
	RetryFailed bool
	Reset       bool
}

// Control configures how others see and steer the run.
type Control struct {
	Name string // "" for none
	Off  bool   // there is no socket
}

// Serve configures a run that others feed.
type Serve struct {
	On        bool          // tasks come by crew ctl add
	MaxQueued int           // waiting tasks at most
	IdleExit  time.Duration // how long without a task until the run ends; 0 for ever
	Keep      time.Duration // how long the journal keeps tasks that have ended
}

// Engine configures runs on other machines, and crew worker.
type Engine struct {
	URL   string   // or the name of a NATS context; "" for none
	Hosts []string // of --ssh, one HOSTS each
	Queue string
	TTL   time.Duration // how long a worker that is not heard of counts as alive
	Reach time.Duration // how long a run goes on while no host is there; 0 for ever

	// of a run

	Env       []string // names of the variables that travel
	Sign      string   // file of the key that signs commands; "" for none
	Detach    bool
	BaseFiles []string // that every host gets
	Transfer  []string // templates of files that a task's host gets
	Return    []string // templates of files that come back
	Cleanup   bool     // remove all of those there

	Attach string // the run whose results are shown; "" for none

	// of crew worker

	Worker   bool // this is one
	Labels   []string
	Commands bool     // runs what is signed, beside or instead of its own command
	Trust    []string // files of the keys that may sign
}

// far reports whether the tasks run on other machines.
func (e *Engine) far() bool { return !e.Worker && e.Attach == "" && (e.URL != "" || len(e.Hosts) > 0) }

// far reports whether anything is to run on other machines.
func (o *Options) far() bool { return o.Engine.far() && !o.Show.DryRun }

// fed reports whether others bring the run's tasks.
func (o *Options) fed() bool { return o.Serve.On || o.Engine.Worker || o.Engine.Attach != "" }

// defaults returns Options for an empty command line, without the defaults that
// finish fills in.
func defaults() Options {
	return Options{
		Input:   Input{Delim: "\n"},
		Command: Command{Replace: "{}"},
		Coproc:  Coproc{Protocol: task.LineProtocol, Window: 1},
		Sched:   Sched{Policy: "fifo"},
		Failure: Failure{
			RetryDelay:    time.Second,
			RetryMaxDelay: time.Minute,
			RetryOn:       RetryOn{Any: true},
			KillAfter:     5 * time.Second,
		},
		Output: Output{Mode: "group"},
		Show:   Show{Progress: "auto", CI: "auto"},
		Engine: Engine{Queue: "default", TTL: 10 * time.Second, Reach: 30 * time.Second},
		Serve:  Serve{MaxQueued: 100_000, Keep: 24 * time.Hour},
	}
}

// With keys, keyedBuffer tasks are read ahead, and workerBuffer with persistent workers,
// so that the reader is not woken for every few. With keys and with persistent workers,
// what is read ahead takes no more than mostBufferBytes.
const (
	keyedBuffer     = 4096
	workerBuffer    = 512
	mostBufferBytes = 16 << 20
)

// finish fills in the defaults that depend on other options or on the machine.
func (o *Options) finish(makeflags string) {
	if o.fed() {
		o.Input.Groups = []Group{{}} // values, of which none is there yet
		o.Pool.Buffer = o.Serve.MaxQueued
	}
	if o.Engine.Attach != "" {
		o.Output.KeepOrder = o.Output.Mode != "raw"
		o.Pool.Jobs, o.Pool.Buffer = attachJobs, 2*attachJobs
	}
	o.Output.KeepOrder = o.Output.KeepOrder || o.Show.DryRun
	if o.Pool.TTY {
		o.Pool.Jobs, o.Output.Mode = 1, "raw"
	}
	o.finishJobserver(makeflags)
	if o.Pool.Jobs == 0 && o.Pool.JobsFile == "" {
		if o.Pool.Jobs = o.Sched.Topics.Workers(); o.Pool.Jobs == 0 {
			o.Pool.Jobs = hereProcessors()
		}
	}
	o.finishPipe()
	if o.Pool.Buffer == 0 {
		least := 64
		switch {
		case o.Pipe.On: // a block for each worker, or many small ones
			o.Pool.BufferFew = max(1, o.Pool.Jobs)
			o.Pool.BufferBytes = o.Pool.BufferFew * int(max(o.Pipe.Block, oneBlock))
		case o.Sched.Policy == "keyed" || o.Sched.Policy == "topic" || o.Sched.PerKey > 0:
			// Many tasks of one key must not keep those of other keys from being read.
			least, o.Pool.BufferBytes = keyedBuffer, mostBufferBytes
		case o.Coproc.Words != "":
			least, o.Pool.BufferBytes = workerBuffer, mostBufferBytes // the window can be large, and so can records
		case o.Command.MaxArgs > 1 || o.Command.MaxChars > 0:
			least = 16 // each is many records, which take memory
		}
		o.Pool.Buffer = max(least, 2*o.Pool.Jobs*o.Coproc.Window)
	}
	if o.Command.MaxArgs == 0 && o.Command.MaxChars == 0 {
		o.Command.MaxArgs = 1
	}
	if o.given("retry-max-delay") == nil {
		o.Failure.RetryMaxDelay = max(o.Failure.RetryMaxDelay, o.Failure.RetryDelay)
	}
}

// given returns the last use of an option, or nil.
func (o *Options) given(name string) *use {
	for i := len(o.uses) - 1; i >= 0; i-- {
		if o.uses[i].opt.name == name {
			return &o.uses[i]
		}
	}
	return nil
}
