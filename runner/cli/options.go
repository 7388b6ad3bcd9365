package cli

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// Options is a parsed and checked command line.
type Options struct {
	Do         string      // the command, such as Run or "ctl log"
	Print      string      // what to print instead; "" for nothing
	Completion *Completion // what to complete instead; nil for nothing

	Input   Input
	Command Command
	Coproc  Coproc
	Pipe    Pipe
	Pool    Pool

	Jobserver Jobserver
	Machine   Machine

	Sched   Sched
	Terms   Terms
	Failure Failure
	Output  Output
	Makes   Makes
	Show    Show
	After   After
	State   State
	Control Control
	Serve   Serve
	Engine  Engine
	Ctl     Ctl
	Hub     Hub
	Look    Look

	of   *command
	uses []use // the options given, in order, without those that were dropped

	asksHelp bool
}

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

	Shard Shard
	Times []string // files and directories with the times of commands
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
	Spread   bool     // the workers share the last records evenly
	Stdin    bool     // the record goes to the task's standard input
}

// Batches reports whether a command can take several records.
func (c Command) Batches() bool { return c.MaxArgs != 1 || c.MaxChars > 0 }

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
	Jobs     string // number of workers as written, or a file with one; "" for the default
	Buffer   int    // tasks to read ahead; 0 for the default
	Delay    time.Duration
	Jitter   time.Duration // the longest wait before the first start
	Workdir  string        // "" for crew's own
	Nice     int           // added to crew's own niceness
	Lock     string        // file that at most one run holds; "" for none
	LockWait time.Duration
	PTY      bool // tasks write to pseudo-terminals
	TTY      bool // tasks run in the terminal's foreground, one at a time
}

// Jobserver configures with whom the run shares the places for its tasks.
type Jobserver struct {
	Mode  string // a value of --jobserver
	Style string // a value of --jobserver-style; "" is auto
}

// Sched configures the order of tasks and which worker runs them.
type Sched struct {
	Policy string       // a value of --sched
	Key    string       // template; "" for none
	Cost   string       // template; "" for 1
	Topics sched.Topics // zero for none
	PerKey int          // 0 for no limit
	Order  string       // a value of --order; "" for input
}

// Terms configures what tasks take to start, beside a worker.
type Terms struct {
	Priority string     // template; "" for 0
	Weight   string     // template; "" for 1
	Needs    string     // template; "" for nothing
	Caps     []task.Cap // in order of name
	Rate     task.Rate
	KeyRate  task.Rate
}

// Failure configures limits of time, retries and the early end of a run.
type Failure struct {
	Retries       int
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration // not less than RetryDelay
	RetryOn       RetryOn
	FlakyFail     bool // a task that passed in a retry counts as a failure in the end
	Limit
	Halt     Halt
	Deadline Deadline // of the run
}

// Limit limits the time of an attempt.
type Limit struct {
	Timeout   time.Duration // 0 for none
	Idle      time.Duration // without output; 0 for no limit
	KillAfter time.Duration // 0 for KILL at once
}

// Deadline is when a run has to end. One of its two forms at most is not zero.
type Deadline struct {
	After time.Duration // counted from the beginning of the run
	Until time.Time
}

// Halt says when a run ends early or pauses. The zero Halt is never.
type Halt struct {
	When    string // soon, now or pause
	On      string // fail, success or done
	N       int
	Percent bool // N is a percentage of the tasks
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
	Mode       string // a value of --output
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

// Makes configures the files that tasks make.
type Makes struct {
	Outs   []string // templates, for each of which {out}, {out2} … stands
	Stdout string   // template of the file that the task's standard output goes to; "" for none
	Reads  []string // templates of what they are made from; nil for the columns that name files
	Always bool     // make what is up to date, too
}

// Any reports whether anything is known of what tasks make.
func (m *Makes) Any() bool { return len(m.Outs) > 0 || m.Stdout != "" }

// Show configures what people see beside the results.
type Show struct {
	Progress string // a value of --progress
	CI       string // a value of --ci
	Quiet    bool
	Verbose  bool
	DryRun   bool
}

// After configures what is made of a run in the end.
type After struct {
	Report string // file of an HTML page; "" for none
	Trace  string // file of a trace for Perfetto; "" for none
	Notify string // command line of the shell that gets the digest; "" for none
}

// State configures the journal.
type State struct {
	Dir         string // "" for none
	Replay      bool
	RetryFailed bool
	Changed     bool // run all again if a program has changed
	Reset       bool
}

// Control configures how others see and steer the run.
type Control struct {
	Name string // "" for none
	Off  bool   // there is no socket
}

// Serve configures a run that others feed.
type Serve struct {
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

	// of crew worker

	Labels   []string
	Commands bool     // runs what is signed, beside or instead of its own command
	Trust    []string // files of the keys that may sign
}

// Ctl is a command of crew ctl, and of what takes its operands: crew engine and crew state.
type Ctl struct {
	task.Request        // without Op and Add, of which Adds is a part
	Run          string // the run, or the file of crew engine key; "" for the only one
	JSON         bool
	Timeout      time.Duration // of wait; 0 for none

	// of add

	Adds       task.Addition // the terms of what is added
	Work       []string      // what to add; with crew engine drain, the workers
	Stdin      bool          // the records of standard input are to be added
	Null       bool
	Block      time.Duration // how long to wait for room or for the next crew serve
	URL, Queue string        // of the engine that Run names; no Queue for none, or for all in crew engine drain
}

// Look configures crew report and crew web.
type Look struct {
	Sources   []string // files and directories of earlier runs; "-" is stdin
	Trace     bool     // write a trace, not a page
	Listen    string   // "" for any port of 127.0.0.1
	TokenFile string   // "" for a token of its own
}

// Hub configures crew engine serve, init, invite and revoke.
type Hub struct {
	Dir, Listen, Cert, Key string
	Hosts                  []string // names and addresses by which clients find it; nil for its own

	MaxOutput int64 // 0 for the default

	Invite Invite
}

// Invite configures crew engine invite.
type Invite struct {
	Submitter bool
	For       time.Duration // until the credentials end; 0 for never
}

// Elsewhere reports whether the tasks run on other machines, or would without --dry-run.
func (o *Options) Elsewhere() bool {
	return (o.Do == DoRun || o.Do == DoServe) && (o.Engine.URL != "" || len(o.Engine.Hosts) > 0)
}

// Far reports whether anything is to run on other machines.
func (o *Options) Far() bool { return o.Elsewhere() && !o.Show.DryRun }

// Fed reports whether others bring the run's tasks.
func (o *Options) Fed() bool { return o.Do != DoRun }

const defaultQueue = "default"

// newOptions returns Options for an empty command line, without the defaults that
// finish fills in.
func newOptions(c *command) *Options {
	return &Options{
		Do: c.name, of: c,
		Input:   Input{Delim: "\n"},
		Command: Command{Replace: "{}"},
		Coproc:  Coproc{Protocol: task.LineProtocol, Window: 1},
		Sched:   Sched{Policy: "fifo"},
		Failure: Failure{
			RetryDelay:    time.Second,
			RetryMaxDelay: time.Minute,
			RetryOn:       RetryOn{Any: true},
			Limit:         Limit{KillAfter: 5 * time.Second},
		},
		Output: Output{Mode: "group"},
		Show:   Show{Progress: "auto", CI: "auto"},
		Engine: Engine{Queue: defaultQueue, TTL: 10 * time.Second, Reach: 30 * time.Second},
		Serve:  Serve{MaxQueued: 100_000, Keep: 24 * time.Hour},
	}
}

// TakesOffers reports whether tasks can need what workers offer.
func (o *Options) TakesOffers() bool { return o.Engine.URL != "" && o.Elsewhere() }

// AllCaps returns the limits by name, and, without units, what workers offer as far as --needs names
// it as it is.
func (o *Options) AllCaps() []task.Cap {
	all := o.Terms.Caps
	if !o.TakesOffers() {
		return all
	}
	for item := range strings.SplitSeq(o.Terms.Needs, ",") {
		name, _, _ := strings.Cut(item, ":")
		if task.IsCapName(name) && !slices.ContainsFunc(all, func(c task.Cap) bool { return c.Name == name }) {
			all = append(slices.Clip(all), task.Cap{Name: name})
		}
	}
	return all
}

// finish fills in the defaults that depend on other options.
func (o *Options) finish() {
	if o.Fed() {
		o.Input.Groups = []Group{{}} // values, of which none is there yet
	}
	slices.SortFunc(o.Terms.Caps, func(a, b task.Cap) int { return strings.Compare(a.Name, b.Name) })
	if o.Do == DoAttach {
		o.Output.KeepOrder = o.Output.Mode != "raw"
	}
	o.Output.KeepOrder = o.Output.KeepOrder || o.Show.DryRun
	if o.Pool.TTY {
		o.Output.Mode = "raw"
	}
	o.finishPipe()
	switch c := &o.Command; {
	case c.MaxArgs > 0 || c.MaxChars > 0:
	case c.Spread:
		c.MaxChars = spreadChars
	default:
		c.MaxArgs = 1
	}
	if f := &o.Failure; o.given("retry-max-delay") == nil {
		f.RetryMaxDelay = max(f.RetryMaxDelay, f.RetryDelay)
	} else if o.given("retry-delay") == nil {
		f.RetryDelay = min(f.RetryDelay, f.RetryMaxDelay)
	}
}

// spreadChars is the size of a command with -X, which xargs fills, too. Larger ones hardly
// run faster, and up to one for each worker is held back.
const spreadChars = 128 << 10

// DefaultBlock is the size of blocks, unless --block says otherwise.
const DefaultBlock = 1 << 20

// finishPipe fills in the defaults of --pipe.
func (o *Options) finishPipe() {
	p := &o.Pipe
	if !p.On {
		return
	}
	if p.Block == 0 && p.Records == 0 {
		p.Block = DefaultBlock
	}
	if o.given("recend") == nil && o.given("recstart") == nil {
		p.End = "\n"
	}
	if o.Coproc.Words != "" { // a filter's last block lasts until the filter exits, beside the next one
		o.Coproc.Window = max(o.Coproc.Window, 2)
	}
}

// Words returns the command that takes the records, which with --worker is that of
// the workers. It is empty if each record is a command line.
func (o *Options) Words() []string {
	if o.Coproc.Words != "" {
		return []string{o.Coproc.Words}
	}
	return o.Command.Words
}

// Protocol returns how records reach the command.
func (o *Options) Protocol() task.Protocol {
	switch {
	case o.Coproc.Words == "":
		return task.NoProtocol
	case o.Pipe.On:
		return task.FilterProtocol
	}
	return o.Coproc.Protocol
}

// ReadsStdin reports whether records come from standard input.
func (in Input) ReadsStdin() bool {
	isStdin := func(g Group) bool { return g.Files && slices.Contains(g.Words, "-") }
	return len(in.Files) == 0 && len(in.Groups) == 0 ||
		slices.Contains(in.Files, "-") || slices.ContainsFunc(in.Groups, isStdin)
}

// ReadsFiles reports whether records come from files or from standard input.
func (in Input) ReadsFiles() bool {
	return in.ReadsStdin() || len(in.Files) > 0 || slices.ContainsFunc(in.Groups, func(g Group) bool { return g.Files })
}

// Sources returns the number of sources that are linked or multiplied.
func (in Input) Sources() int {
	n := min(1, len(in.Files))
	for _, g := range in.Groups {
		if n++; g.Files {
			n += len(g.Words) - 1
		}
	}
	return n
}

// ObjectTasks reports whether each JSON object describes a task. With a command it
// is data.
func (o *Options) ObjectTasks() bool { return o.Input.JSON && len(o.Words()) == 0 }

// Silent reports whether crew says nothing of its own while all is well.
func (o *Options) Silent() bool { return o.Show.Quiet || o.Output.FailedOnly && !o.Show.DryRun }

// TakesValues reports whether values are added to crew serve, and not commands.
func (o *Options) TakesValues() bool { return len(o.Words()) > 0 || o.Input.JSON }

// Has reports whether the outcome is in the list.
func (on RetryOn) Has(o task.Outcome) bool { return slices.Contains(on.Outcomes, o) }

// given returns the last use of an option, or nil.
func (o *Options) given(name string) *use {
	for i := len(o.uses) - 1; i >= 0; i-- {
		if o.uses[i].opt.name == name {
			return &o.uses[i]
		}
	}
	return nil
}

// Typed returns how an option was typed, or "" if it was not given.
func (o *Options) Typed(name string) string {
	if u := o.given(name); u != nil {
		return u.String()
	}
	return ""
}

// Bad returns the error of an option's value, for which err is the hint.
func (o *Options) Bad(name string, err error) error { return o.given(name).bad(err) }

// Group is a ::: or one of its variants, with the words that follow it.
type Group struct {
	Files  bool     // Words are names of files, each a source of its own
	Linked bool     // linked to the group before it, instead of multiplied with it
	Words  []string // the values, or names of files
}

// Completion lists what a word of a command line may be.
type Completion struct {
	Runs  bool   // the names of the runs that crew ctl sees, too
	Tasks bool   // the numbers of the tasks of a run, too
	Run   string // this one; "" for the only one

	shell  string // a value of --completion, in whose form Text is
	lead   string // what stands before each word
	prefix string // what each begins with, behind that
	words  []Candidate

	// What the shell is to complete beside or instead of these words: files, dirs, programs,
	// or the arguments of the command that begins with the line's Nth word, command N.
	kind string
}

// Candidate is a word, with its description.
type Candidate struct{ Word, Text string }
