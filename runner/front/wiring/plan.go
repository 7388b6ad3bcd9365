package wiring

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/jobserver"
	"crew/runner/exec/machine"
	"crew/runner/front/cli"
	"crew/runner/show/sink"
	"crew/sched"
)

// plan holds the decisions that the command line implies. It is made before anything is opened, and
// the code that opens things adds only facts that it alone knows.
type plan struct {
	task.Plan             // where outputs go
	limits    core.Config // of the run

	jobs      int             // number of workers; 0 means paused, which only a --jobs file can say
	file      string          // the file that jobs was read from; "" for none
	auto      *sched.Auto     // chooses the number of workers; nil if that is fixed
	join      *jobserver.Auth // make's jobserver, which the run joins; nil for none
	processes int64           // limit on the processes and threads of crew and its tasks together

	ci           string // the CI server to report to: github, gitlab or none
	progress     sink.Progress
	tellFailures bool          // report each failed task at once: to a person, or in the log of a CI server
	announces    bool          // print each command before its task starts, because tasks write to stdout themselves
	socketAfter  time.Duration // see control.Config.Delay
}

// Sizes of the read-ahead.
const (
	keyedBuffer    = 4096     // tasks, with keys, limits by name, priorities or an order by cost
	workerBuffer   = 512      // tasks, with persistent workers: the reader is woken less often
	maxBufferBytes = 16 << 20 // of tasks, in both cases
)

const (
	window = 1 << 20                // tasks that -k may admit beyond the first unreleased one
	tick   = 200 * time.Millisecond // how often the sinks are called when there are no events
)

// workersPerProcessor is how many workers -j auto starts for each processor, unless --max-jobs says so.
const workersPerProcessor = 32

// attachJobs is how many results crew engine attach fetches at once.
const attachJobs = 4

// newPlan returns the plan that options imply. person reports whether a person reads stderr.
func newPlan(o *cli.Options, getenv func(string) string, person bool) (p plan, err error) {
	here := machine.New("")
	p.processes = here.Processes()
	can := mostTasks(o, p.processes)
	switch written := o.Pool.Jobs; written {
	case "":
	case "auto":
		most := cmp.Or(o.Pool.Most, workersPerProcessor*here.Processors())
		p.auto = sched.NewAuto(here.Processors(), max(1, o.Pool.Least), min(most, can))
		p.jobs = p.auto.Workers()
	default:
		if p.jobs, p.file, err = readJobs(written, can); err != nil {
			return p, o.Bad("jobs", err)
		}
	}
	switch {
	case o.Do == cli.DoAttach:
		p.jobs = attachJobs
	case o.Pool.TTY:
		p.jobs = 1
	}
	p.findJobserver(o, getenv("MAKEFLAGS"))
	if p.jobs == 0 && p.file == "" {
		p.jobs = cmp.Or(o.Sched.Topics.Workers(), here.Processors())
	}
	p.planOutput(o, getenv, person)
	p.planLimits(o)
	if !o.Elsewhere() {
		p.limits.Pool.Machine, err = machineBounds(o, here)
	}
	return p, err
}

// planOutput sets where outputs go, and which messages are printed.
func (p *plan) planOutput(o *cli.Options, getenv func(string) string, person bool) {
	out, show := &o.Output, &o.Show
	p.Plan = task.Plan{
		Show: task.ShowBlocks, Order: out.KeepOrder, Tag: out.Tag || out.TagString != "",
		Copy:     out.Results != "" || (o.Do == cli.DoServe || out.JUnit != "") && out.Mode != "raw", // crew ctl shows them
		Attempts: out.JUnit != "",
	}
	p.Bound = o.Failure.Bound
	switch mode := out.Mode; {
	case mode == "none" && out.JSON:
		p.Show = task.ShowFacts
	case mode == "none":
		p.Show = task.ShowNothing
	case mode == "raw":
		p.Show = task.ShowRaw
	case mode == "line":
		p.Show = task.ShowLines
	case out.JSON:
		p.Show = task.ShowObjects
	}
	if o.Do == cli.DoWork {
		p.Show = task.ShowNothing // the output goes to the tasks' own runs
	}
	p.FailedOnly = out.FailedOnly && !show.DryRun
	if show.DryRun {
		p.Show = task.ShowBlocks // the commands, in place of the output
	}
	p.ci = ciServer(o, getenv)
	p.tellFailures = (person || p.ci != "none") && !show.Quiet && o.Do != cli.DoWork
	p.announces = show.Verbose && p.Streams()
	switch when := show.Progress; {
	case when == "never", when == "auto" && o.Do == cli.DoServe: // usually in the background of a shell
		p.progress = sink.ProgressNever
	case when == "always":
		p.progress = sink.ProgressAlways
	case p.ci != "none" && !p.FailedOnly:
		p.progress = sink.ProgressLines
	}
}

// ciServer returns the CI server to report to: github, gitlab or none.
func ciServer(o *cli.Options, getenv func(string) string) string {
	switch {
	case o.Do == cli.DoWork || o.Engine.Detach || o.Show.DryRun:
		return "none"
	case o.Show.CI != "auto":
		return o.Show.CI
	case getenv("CREW_PID") != "": // this crew is a task of another one, which reports it
		return "none"
	case getenv("GITHUB_ACTIONS") == "true":
		return "github"
	case getenv("GITLAB_CI") == "true":
		return "gitlab"
	}
	return "none"
}

// planLimits sets the limits of the run.
func (p *plan) planLimits(o *cli.Options) {
	f := &o.Failure
	p.limits = core.Config{
		Pool:  core.Pool{Window: o.Coproc.Window, Remote: o.Far(), Delay: o.Pool.Delay},
		Queue: o.Queue, Order: core.Order{Keep: o.Output.KeepOrder, Window: window},
		Limit: f.Limit, Retry: f.Retry, Halt: f.Halt, Feed: o.Serve.Feed, Tick: tick,
	}
	if p.socketAfter = controlAfter; o.Do == cli.DoServe || o.Do == cli.DoWork || f.Halt.When == core.Pause {
		p.socketAfter = 0 // clients must reach it
	}
	p.planReadAhead(o)
	cfg, q := &p.limits, &p.limits.Queue
	q.Terms = o.Do == cli.DoServe || o.ObjectTasks() || o.Terms.Priority != ""
	cfg.Retry.On, cfg.Retry.Jitter, cfg.Retry.Keep = f.RetryOn.Has, rand.Float64, p.KeepsAttempts()
	cfg.Feed.Open, cfg.Feed.Remember = o.Fed() && o.Do != cli.DoAttach, o.Do == cli.DoServe || o.State.Dir != ""
	// Workers on other machines are sent attempts ahead of time, unless that could change which tasks run:
	// if starts are limited, if a later task can overtake, or if --halt must prevent further starts.
	limited := o.Any("per-key cap needs rate key-rate delay weight topics")
	long := o.Any("pipe makes stdout-to") // attempts that take several messages, which can arrive in any order
	if o.Far() && !o.Engine.Detach && !long && !limited && !q.Terms && cfg.Halt.When == core.Never && !p.announces {
		cfg.Pool.Ahead = 3
	}
}

// findJobserver looks for make's jobserver. Its size becomes the number of workers unless an option gives
// that.
func (p *plan) findJobserver(o *cli.Options, makeflags string) {
	if o.Jobserver.Mode == "no" || o.Elsewhere() || o.Do == cli.DoAttach {
		return
	}
	if auth, found := jobserver.Parse(makeflags); found {
		p.join = &auth
		if o.Workers() == "" && p.jobs == 0 {
			p.jobs = min(auth.Jobs, maxJobs)
		}
	}
}

// planReadAhead sets how much is read ahead.
func (p *plan) planReadAhead(o *cli.Options) {
	q := &p.limits.Queue
	switch {
	case o.Do == cli.DoAttach:
		q.Buffer = 2 * attachJobs
	case o.Fed():
		q.Buffer = o.Serve.Feed.MaxQueued
	}
	if q.Buffer > 0 {
		return
	}
	least := 64
	switch {
	case o.Pipe.On: // a block for each worker, or many small ones
		q.Few = max(1, p.jobs)
		q.Bytes = q.Few * int(max(o.Pipe.Block, cli.DefaultBlock))
	case slices.Contains([]string{"keyed", "topic", "fair"}, o.Sched.Policy) || o.Any("per-key key-rate cap offers needs priority order"):
		// Many tasks that share a key or a limit must not keep other tasks from being read, and an order
		// must cover more than a few tasks.
		least, q.Bytes = keyedBuffer, maxBufferBytes
	case o.Coproc.Words != "":
		least, q.Bytes = workerBuffer, maxBufferBytes // both the window and the records can be large
	case o.Command.MaxArgs > 1 || o.Command.MaxChars > 0:
		least = 16 // each task holds many records, which take memory
	}
	q.Buffer = max(least, 2*p.jobs*o.Coproc.Window)
}
