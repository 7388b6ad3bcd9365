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
)

// plan is what becomes of a command line, decided before anything is opened. What is opened adds only
// what it alone knows.
type plan struct {
	task.Plan             // what becomes of outputs
	limits    core.Config // of the run

	jobs      int             // number of workers; 0 for a pause, which only file can ask for
	file      string          // that jobs was read from; "" for none
	join      *jobserver.Auth // make's jobserver, which the run joins; nil for none
	processes int64           // how many processes and threads crew and its tasks may come to

	ci        string // the CI server to tell of the run: github, gitlab or none
	progress  sink.Progress
	failures  bool // say at once that a task has failed: to a person, or in the log of a CI server
	announces bool // print commands before their tasks start, which write to stdout themselves
}

// With keys, limits by name, priorities or an order by cost, keyedBuffer tasks are read ahead, and
// workerBuffer with persistent workers, so that the reader is not woken for every few. In all these
// cases, what is read ahead takes no more than mostBufferBytes.
const (
	keyedBuffer     = 4096
	workerBuffer    = 512
	mostBufferBytes = 16 << 20
)

const (
	window = 1 << 20                // tasks that --keep-order may admit beyond the first unreleased one
	tick   = 200 * time.Millisecond // how often the sinks are called while nothing happens
)

// attachJobs is how many results are fetched at once.
const attachJobs = 4

// planOf returns the plan of options, in an environment and with or without a person at stderr.
func planOf(o *cli.Options, getenv func(string) string, person bool) (p plan, err error) {
	here := machine.New("")
	p.processes = here.Processes()
	if written := o.Pool.Jobs; written != "" {
		if p.jobs, p.file, err = readJobs(written, p.processes); err != nil {
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
	p.limit(o)
	if !o.Elsewhere() && !o.Show.DryRun {
		p.limits.Pool.Machine, err = boundsOf(o, here)
	}
	return p, err
}

// planOutput says what becomes of outputs, and what people are told.
func (p *plan) planOutput(o *cli.Options, getenv func(string) string, person bool) {
	out := &o.Output
	p.Plan = task.Plan{
		Show: task.ShowBlocks, Order: out.KeepOrder, Tag: out.Tag || out.TagString != "",
		Copy:     out.Results != "" || (o.Do == cli.DoServe || out.JUnit != "") && out.Mode != "raw", // crew ctl shows them
		Attempts: out.JUnit != "",
	}
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
		p.Show = task.ShowNothing // here: the output goes to the tasks' own runs
	}
	p.FailedOnly = out.FailedOnly && !o.Show.DryRun
	if o.Show.DryRun && p.Streams() {
		p.Show = task.ShowBlocks // nothing runs that could write by itself
	}
	p.ci = ciServer(o, getenv)
	p.failures = (person || p.ci != "none") && !o.Show.Quiet && o.Do != cli.DoWork
	p.announces = o.Show.Verbose && p.Streams()
	switch when := o.Show.Progress; {
	case when == "never", when == "auto" && o.Do == cli.DoServe: // that mostly runs in the background of a shell
		p.progress = sink.ProgressNever
	case when == "always":
		p.progress = sink.ProgressAlways
	case p.ci != "none" && !p.FailedOnly:
		p.progress = sink.ProgressLines
	}
}

// ciServer returns the CI server to tell of the run: github, gitlab or none.
func ciServer(o *cli.Options, getenv func(string) string) string {
	switch {
	case o.Do == cli.DoWork || o.Engine.Detach || o.Show.DryRun:
		return "none"
	case o.Show.CI != "auto":
		return o.Show.CI
	case getenv("CREW_PID") != "": // the crew whose task this is tells of it
		return "none"
	case getenv("GITHUB_ACTIONS") == "true":
		return "github"
	case getenv("GITLAB_CI") == "true":
		return "gitlab"
	}
	return "none"
}

// limit says how the run is limited.
func (p *plan) limit(o *cli.Options) {
	f := &o.Failure
	p.limits = core.Config{
		Pool:  core.Pool{Window: o.Coproc.Window, Remote: o.Far(), Delay: o.Pool.Delay},
		Queue: o.Queue, Order: core.Order{Keep: o.Output.KeepOrder, Window: window},
		Limit: f.Limit, Retry: f.Retry, Halt: f.Halt, Feed: o.Serve.Feed, Tick: tick,
	}
	p.readAhead(o)
	cfg, q := &p.limits, &p.limits.Queue
	q.Terms = o.Do == cli.DoServe || o.ObjectTasks() || o.Terms.Priority != ""
	cfg.Retry.On, cfg.Retry.Jitter, cfg.Retry.Keep = f.RetryOn.Has, rand.Float64, p.KeepsAttempts()
	cfg.Feed.Open, cfg.Feed.Remember = o.Fed() && o.Do != cli.DoAttach, o.Do == cli.DoServe || o.State.Dir != ""
	if o.Show.DryRun {
		cfg.Limit, q.Rate, q.KeyRate = core.Limit{}, task.Rate{}, task.Rate{}
		if cfg.Halt.When == core.Pause { // nobody can resume it
			cfg.Halt.When = core.Never
		}
	}
	// Workers on other machines are sent attempts before it is their turn, unless that could change what
	// runs: where starts are limited, or what comes later can be first, or an end is to keep others from
	// starting.
	limited := o.Any("per-key cap needs rate key-rate delay weight topics")
	long := o.Any("pipe makes stdout-to") // messages, which come in any order
	if o.Far() && !o.Engine.Detach && !long && !limited && !q.Terms && cfg.Halt.When == core.Never && !p.announces {
		cfg.Pool.Ahead = 3
	}
}

// findJobserver finds make's jobserver, which gives the number of workers unless
// options do.
func (p *plan) findJobserver(o *cli.Options, makeflags string) {
	if makeflags == "" || o.Jobserver.Mode == "no" || o.Elsewhere() || o.Do == cli.DoAttach {
		return
	}
	if auth, found := jobserver.Parse(makeflags); found {
		p.join = &auth
		if o.Workers() == "" && p.jobs == 0 {
			p.jobs = min(auth.Jobs, mostJobs)
		}
	}
}

// readAhead says how much is read ahead.
func (p *plan) readAhead(o *cli.Options) {
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
		// Many tasks of one key, or that need one thing, must not keep others from being read, nor
		// an order hold for a few tasks only.
		least, q.Bytes = keyedBuffer, mostBufferBytes
	case o.Coproc.Words != "":
		least, q.Bytes = workerBuffer, mostBufferBytes // the window can be large, and so can records
	case o.Command.MaxArgs > 1 || o.Command.MaxChars > 0:
		least = 16 // each is many records, which take memory
	}
	q.Buffer = max(least, 2*p.jobs*o.Coproc.Window)
}
