package cli

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
	"crew/sched"
)

// Options is what the command line says, checked and with defaults. It never
// leaves this package: each room gets a Config of its own.
type Options struct {
	Input   Input
	Command Command
	Pool    Pool
	Sched   Sched
	Failure Failure
	Output  Output
	Show    Show
	State   State

	uses []use  // every option given and not left out, in order
	env  []use  // the options of CREW_OPTS, with those that were left out
	ask  string // what to print instead of running: askHelp, askVersion or a shell's name
}

// What a command line can ask for instead of a run, beside completion.
const (
	askHelp    = "help"
	askVersion = "version"
)

// Input says where records come from and how they are cut.
type Input struct {
	Files     []string       // -a, read one after another before any group; "-" is stdin
	Groups    []Group        // ::: and its like
	Delim     string         // what ends a record, one or more bytes; "\n" by default
	Colsep    *regexp.Regexp // between columns; nil without
	CSV       bool
	Header    bool
	JSON      bool
	SkipEmpty bool
	EOF       string // the record to stop at; "" for none
}

// Command says what a record becomes.
type Command struct {
	Words    []string // empty where each record is a command line
	Shell    string   // path of a shell to run it in; "" leaves that to the command's form
	Replace  string   // what stands for the record; "{}" by default
	MaxArgs  int      // records a command, at least 1; 0 for as many as MaxChars lets in
	NoArgs   bool     // -n0: a record makes a command but is not put in
	MaxChars int      // bytes of a command; 0 for the system's limit alone
	Stdin    bool     // the record goes to the task's standard input
}

// batches says that a command can take several records.
func (c Command) batches() bool { return c.MaxArgs != 1 || c.MaxChars > 0 }

// Pool says how many tasks run at once, and where.
type Pool struct {
	Jobs        int    // at least 1; 0 for a pause, where a file says so
	JobsFile    string // where Jobs was read from; "" where it stood on the command line
	Buffer      int    // tasks read ahead, at least 1
	BufferBytes int    // of these, past the first few, at most so many bytes; 0 for any number
	Delay       time.Duration
	Workdir     string // "" for crew's own
	Nice        int    // added to crew's own niceness
}

// Sched says which task runs where.
type Sched struct {
	Policy string       // one of policies
	Key    string       // template; "" without
	Cost   string       // template; "" for 1
	Topics sched.Topics // the zero Topics without
	PerKey int          // 0 for no limit

	LongestFirst bool // what took longest in an earlier run goes first
}

// Failure says what follows from a failure.
type Failure struct {
	Retries       int
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration // not less than RetryDelay
	RetryOn       RetryOn
	Timeout       time.Duration // 0 for none
	KillAfter     time.Duration // 0 for KILL at once
	Halt          Halt
}

// RetryOn says which outcomes are worth another attempt.
type RetryOn struct {
	Any                    bool // every failure
	Exit                   []ExitRange
	Signal, Timeout, Start bool
}

// ExitRange is the exit statuses from From to To, both in it.
type ExitRange struct{ From, To int }

// Halt says when a run ends before its input does. The zero Halt never ends it.
type Halt struct {
	When    string // "" never, "soon" starts nothing more, "now" ends what runs
	On      string // what is counted: "fail", "success" or "done"
	N       int    // how many, at least 1
	Percent bool   // N is a share of the tasks in percent
}

// Output says where results go.
type Output struct {
	Mode      string // one of modes
	KeepOrder bool
	Tag       bool
	TagString string // template; "" without
	JSON      bool
	Results   string // directory; "" without
	Joblog    string // file; "" without
}

// Show says what people get to see beside the results.
type Show struct {
	Progress string // one of whens
	Quiet    bool
	Verbose  bool
	DryRun   bool
}

// State says what of the run lasts, and what of earlier runs counts.
type State struct {
	Dir         string // "" for none
	Replay      bool
	RetryFailed bool
	Reset       bool
}

// defaults is Options before anything was said. What depends on other options
// is left to finish.
func defaults() Options {
	return Options{
		Input:   Input{Delim: "\n"},
		Command: Command{Replace: "{}"},
		Sched:   Sched{Policy: "fifo"},
		Failure: Failure{
			RetryDelay:    time.Second,
			RetryMaxDelay: time.Minute,
			RetryOn:       RetryOn{Any: true},
			KillAfter:     5 * time.Second,
		},
		Output: Output{Mode: "group"},
		Show:   Show{Progress: "auto"},
	}
}

// manyAhead is how many tasks are read ahead where keys matter, as long as they
// take no more than manyBytes.
const (
	manyAhead = 4096
	manyBytes = 16 << 20
)

// finish fills in the defaults that depend on other options or on the machine.
func (o *Options) finish() {
	if o.Pool.Jobs == 0 && o.Pool.JobsFile == "" {
		if o.Pool.Jobs = o.Sched.Topics.Workers(); o.Pool.Jobs == 0 {
			o.Pool.Jobs = hereProcessors()
		}
	}
	if o.Pool.Buffer == 0 {
		least := 64
		switch {
		case o.Sched.Policy == "keyed" || o.Sched.Policy == "topic" || o.Sched.PerKey > 0:
			// The tasks of one key must not keep those of others from being read.
			least, o.Pool.BufferBytes = manyAhead, manyBytes
		case o.Command.MaxArgs > 1 || o.Command.MaxChars > 0:
			least = 16 // each is many records: more would only be memory
		}
		o.Pool.Buffer = max(least, 2*o.Pool.Jobs)
	}
	if o.Command.MaxArgs == 0 && o.Command.MaxChars == 0 {
		o.Command.MaxArgs = 1
	}
	if !o.has("retry-max-delay") {
		o.Failure.RetryMaxDelay = max(o.Failure.RetryMaxDelay, o.Failure.RetryDelay)
	}
}

// given is the last use of an option, or nil.
func (o *Options) given(name string) *use {
	for i := len(o.uses) - 1; i >= 0; i-- {
		if o.uses[i].opt.name == name {
			return &o.uses[i]
		}
	}
	return nil
}

// has says whether the option was given.
func (o *Options) has(name string) bool { return o.given(name) != nil }

// cutting are the options that say where records come from and how they are
// cut, and those whose files a second run would write over.
var cutting = [...]string{"arg-file", "null", "delimiter", "colsep", "csv", "input", "eof", "joblog", "results"}

// stateless are the options about earlier runs that have no part in one that
// only makes up for failures.
var stateless = [...]string{"replay", "retry-failed", "state-reset"}

// composing are the options that say what commands are made of.
var composing = [...]string{"header", "max-args", "max-chars", "replace"}

// again is a command line, ready for a shell, that does what this one does to
// other records. The options before the command and the groups after it that
// give those records are the caller's, and stand there as they are.
func (o *Options) again(options, values string) string {
	return o.anew(o.Command.Words, nil, options, values)
}

// againWhole is again for records that are command lines.
func (o *Options) againWhole(options, values string) string {
	return o.anew(nil, composing[:], options, values)
}

// cuts says whether the option is one of cutting and has no part in again. Where
// tasks read their records, what ends these stays, and so does what cuts those
// of one source, which are given again as they were read.
func (o *Options) cuts(name string) bool {
	switch name {
	case "null", "delimiter":
		return !o.Command.Stdin
	case "colsep", "csv":
		return !o.Command.Stdin || o.Input.sources() > 1
	}
	return slices.Contains(cutting[:], name)
}

func (o *Options) anew(command, without []string, options, values string) string {
	drops := func(u use) bool {
		name := u.opt.name
		return o.cuts(name) || slices.Contains(stateless[:], name) || slices.Contains(without, name)
	}
	words := []string{"crew"}
	// In the line that this makes CREW_OPTS must not say what it does not here.
	alone := slices.ContainsFunc(o.env, func(u use) bool { return drops(u) || !slices.Contains(o.uses, u) })
	if alone {
		words = []string{"CREW_OPTS=", "crew"}
	}
	for _, u := range o.uses {
		if u.env && !alone || drops(u) {
			continue
		}
		words = append(words, u.opt.typed())
		if u.opt.value != "" {
			words = append(words, task.Quote(u.value))
		}
	}
	if o.State.Dir != "" {
		words = append(words, "--retry-failed")
	}
	if options != "" {
		words = append(words, options)
	}
	for i, w := range command {
		if i == 0 && (strings.HasPrefix(w, "-") || reserved(w)) {
			words = append(words, "--")
		}
		words = append(words, task.Quote(w))
	}
	if values != "" {
		words = append(words, values)
	}
	return strings.Join(words, " ")
}
