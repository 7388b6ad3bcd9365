package cli

import (
	"io/fs"
	"math/rand/v2"
	"os"

	"crew/runner"
	"crew/runner/sink"
	"crew/runner/task"
	"crew/sched"
)

// shows are the values of --output.
var shows = map[string]task.Show{
	"group": task.ShowBlocks, "line": task.ShowLines, "raw": task.ShowRaw, "none": task.ShowNothing,
}

// plan is what becomes of output: capture, show, record and replay follow from it.
func (o *Options) plan() task.Plan {
	p := task.Plan{
		Show: shows[o.Output.Mode], Order: o.Output.KeepOrder, Tag: o.Output.Tag || o.Output.TagString != "",
		Copy: o.Output.Results != "",
	}
	switch {
	case o.Output.JSON && p.Show == task.ShowNothing:
		p.Show = task.ShowFacts
	case o.Output.JSON:
		p.Show = task.ShowObjects
	}
	return p
}

// sinks opens the outputs, in the order in which they look at results: the
// record first; stdout takes outputs away that have to wait for their turn, so
// it follows those that read them; the bar comes last.
func (w *wiring) sinks() ([]runner.Sink, error) {
	o := w.opts
	cfg := sink.StdoutConfig{Plan: w.plan, Batches: o.Command.batches(), Store: w.store}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	terminal := sink.NewTerminal(w.screen, sink.TerminalConfig{Progress: w.progress(), Explain: o.Show.Verbose})
	w.stdout = sink.NewStdout(w.screen, cfg)
	logs, err := w.logs()
	if err != nil {
		return nil, err
	}
	var sinks []runner.Sink
	var last runner.Sink = w.stdout
	if w.state != nil {
		kept := w.state.Logs()
		for _, s := range logs {
			kept.Add(s)
		}
		sinks, last = []runner.Sink{w.state.Commit(), kept}, w.state.Shown(w.stdout)
	} else {
		sinks = logs
	}
	if !o.Show.Quiet {
		sinks = append(sinks, sink.NewDigest(w.screen, w.source.rerun()))
	}
	if o.Show.Verbose && !w.announces() {
		sinks = append(sinks, sink.NewVerbose(w.screen))
	}
	return append(sinks, last, terminal), nil
}

// logs opens the sinks that keep results in files.
func (w *wiring) logs() (logs []runner.Sink, err error) {
	o := w.opts
	resumed := w.resumed()
	anew := o.State.Replay || emptyLogs(o.Output)
	if resumed && anew && o.Output.logs() {
		if err := w.state.LogAll(); err != nil {
			return nil, err
		}
	}
	if path := o.Output.Joblog; path != "" {
		var log *sink.Joblog
		switch {
		case !resumed || o.State.Replay:
			log, err = sink.OpenJoblog(path)
		case anew:
			log, err = sink.AppendJoblog(path, nil)
		default:
			log, err = sink.AppendJoblog(path, w.state.Unlogged)
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	if dir := o.Output.Results; dir != "" {
		tree, err := sink.OpenResults(dir, o.Command.batches())
		if err != nil {
			return nil, err
		}
		logs = append(logs, tree)
	}
	return logs, nil
}

// logs says whether results are kept in files.
func (o Output) logs() bool { return o.Joblog != "" || o.Results != "" }

// emptyLogs says whether the files for results hold none.
func emptyLogs(o Output) bool {
	if o.Joblog != "" {
		if st, err := os.Stat(o.Joblog); err == nil && st.Size() > 0 {
			return false
		}
	}
	if o.Results != "" {
		if entries, err := fs.ReadDir(os.DirFS(o.Results), "."); err == nil && len(entries) > 0 {
			return false
		}
	}
	return true
}

// resumed says whether the run goes on with what an earlier one has begun.
func (w *wiring) resumed() bool {
	if w.state == nil {
		return false
	}
	_, ok := w.state.Resumed()
	return ok
}

// announces says whether commands are printed before their tasks start, which
// then may have to wait for whoever reads that: where tasks write by themselves.
func (w *wiring) announces() bool { return w.opts.Show.Verbose && w.plan.Streams() }

// progress is what the bar does: nothing where tasks write past it.
func (w *wiring) progress() sink.Progress {
	switch o := w.opts; {
	case w.plan.Show == task.ShowRaw || o.Show.Progress == "never":
		return sink.ProgressNever
	case o.Show.Progress == "always":
		return sink.ProgressAlways
	}
	return sink.ProgressAuto
}

// newPolicy makes the policy that was asked for.
func newPolicy(o *Options) (sched.Policy, error) {
	cfg := sched.Config{Name: o.Sched.Policy, Topics: o.Sched.Topics}
	if o.Sched.LongestFirst {
		cfg.Name = "longest-first"
	}
	return sched.New(cfg)
}

// retry says which failures get another attempt, and when.
func retry(f Failure) runner.Retry {
	return runner.Retry{
		Max: f.Retries, Delay: f.RetryDelay, MaxDelay: f.RetryMaxDelay,
		On: f.RetryOn.match, Jitter: rand.Float64,
	}
}

// match says whether a failed attempt is worth another.
func (on RetryOn) match(r *task.Result) bool {
	switch r.Outcome {
	case task.Exit:
		for _, e := range on.Exit {
			if e.From <= r.Code && r.Code <= e.To {
				return true
			}
		}
	case task.Signal:
		return on.Any || on.Signal
	case task.Timeout:
		return on.Any || on.Timeout
	case task.StartFailed:
		return on.Any || on.Start
	}
	return on.Any
}

// halt is when a run of so many tasks, where that matters, stops early.
func halt(h Halt, tasks uint64) runner.Halt {
	r := runner.Halt{N: h.N, Percent: h.Percent, Tasks: tasks}
	switch h.When {
	case "soon":
		r.When = runner.Soon
	case "now":
		r.When = runner.Now
	}
	switch h.On {
	case "success":
		r.On = runner.OnSuccess
	case "done":
		r.On = runner.OnDone
	}
	return r
}
