package wiring

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/show/report"
	"crew/runner/show/sink"
)

// openSinks opens the outputs and lists them in the order in which they get events, after firstSinks.
// Stdout comes after everything that reads outputs, because it takes the outputs that have to wait for
// their turn. The progress bar comes last.
func (w *wiring) openSinks() error {
	cfg := sink.StdoutConfig{Plan: w.plan.Plan, Records: w.source.records(), Store: w.store, Group: w.openCILog()}
	w.input = w.inputInfo()
	terminal := sink.NewTerminal(w.screen, sink.TerminalConfig{
		Progress: w.plan.progress, Explain: w.opts.Show.Verbose, Input: w.input, Raw: w.plan.Show == task.ShowRaw,
		Typed: w.readsTerminal(), Silent: w.opts.Silent(),
	})
	w.stdout = sink.NewStdout(w.screen, cfg)
	logs, err := w.openLogs()
	if err != nil {
		return err
	}
	var sinks []runner.Sink
	var stdout runner.Sink = w.stdout
	if w.state == nil {
		for _, log := range logs {
			sinks = append(sinks, log)
		}
	} else {
		sinks, stdout = append(sinks, w.state.Logs(logs...)), w.state.Shown(stdout)
	}
	reports, err := w.openReports()
	if err != nil {
		return err
	}
	if sinks = append(slices.Concat(sinks, reports, w.messageSinks()), stdout); w.plan.tellFailures {
		sinks = append(sinks, sink.NewFailures(w.screen))
	}
	w.sinks = append(sinks, ownEvents(w.opts, terminal))
	return nil
}

// openReports opens the sink of --junit. It returns all sinks that write reports.
func (w *wiring) openReports() (sinks []runner.Sink, err error) {
	if path := w.opts.Output.JUnit; path != "" {
		if err := w.checkReplaces("--junit", path); err != nil { // the file is replaced at the end
			return nil, err
		}
		junit, err := report.OpenJUnit(path, cmp.Or(w.opts.Control.Name, strings.Join(w.opts.Words(), " ")))
		if err != nil {
			return nil, err
		}
		w.onClose(junit.Drop)
		sinks = append(sinks, junit)
	}
	if w.report != nil {
		sinks = append(sinks, w.report)
	}
	return sinks, nil
}

// messageSinks returns the sinks that print the digest, annotations for GitHub, and commands.
func (w *wiring) messageSinks() (sinks []runner.Sink) {
	o, show := w.opts, &w.opts.Show
	if !show.Quiet || o.After.Notify != "" || w.plan.ci == "github" {
		w.digest = sink.NewDigest(w.screen, w.input, w.source.rerunConfig())
		w.digest.FailedOnly, w.digest.FlakyFail, w.digest.MissingHosts = w.plan.FailedOnly, o.Failure.FlakyFail, w.missingMachines
		w.digest.Quiet = show.Quiet
		sinks = append(sinks, ownEvents(o, w.digest))
	}
	if w.plan.ci == "github" {
		sinks = append(sinks, ownEvents(o, w.newAnnotations()))
	}
	if show.Verbose || show.DryRun {
		verbose := sink.NewVerbose(w.screen)
		verbose.WhyOnly, verbose.Announced = !show.Verbose, w.plan.announces
		sinks = append(sinks, verbose)
	}
	return sinks
}

// openLogs opens the sinks of --joblog and --results.
func (w *wiring) openLogs() (logs []journal.Log, err error) {
	o := w.opts
	out := &o.Output
	resumed := false
	if w.state != nil {
		_, resumed = w.state.Resumed()
	}
	anew := o.State.Replay || logsEmpty(o, w.source.results)
	if resumed && anew && writesLogs(o) {
		if err := w.state.ClearLogged(); err != nil {
			return nil, err
		}
	}
	if path := out.Joblog; path != "" {
		mode, starts := sink.JoblogResumed, w.state.Unlogged
		switch {
		case !resumed && out.Append:
			mode = sink.JoblogShared
		case !resumed || o.State.Replay && !out.Append:
			mode = sink.JoblogNew
		}
		if mode == sink.JoblogNew {
			if err := w.checkOtherFile("--joblog", path); err != nil {
				return nil, err
			}
		}
		log, err := sink.OpenJoblog(path, mode, starts)
		if err == nil && w.state != nil && mode == sink.JoblogNew { // a resumed run must not find what was there before
			err = log.Sync()
		}
		if err != nil {
			return nil, err
		}
		if w.state != nil && w.feed == nil {
			w.tasks = completingSource{w.tasks, log.Complete}
		}
		logs = append(logs, log)
	}
	if dir := w.source.results; dir != "" {
		tree, err := sink.OpenResults(dir, w.source.tasks.Results, w.source.records())
		if err != nil {
			return nil, err
		}
		tree.Named, tree.Fed, tree.Late = !w.source.config.Results.Constant(), w.feed != nil, o.Do == cli.DoAttach
		switch {
		case tree.Fed:
			w.feed.claim = tree.Claim
		case tree.Named && !tree.Late:
			w.tasks = completingSource{w.tasks, func(t *task.Task) { w.claimResults(tree, t) }}
		}
		logs = append(logs, tree)
	}
	return logs, nil
}

// claimResults reserves the directory for the results of a task. A task that has ended cannot fail, so a notice
// says that its results are not saved.
func (w *wiring) claimResults(tree *sink.Results, t *task.Task) {
	if tree.Claim(t); t.Err != nil && t.Done != nil && t.Done.Outcome != task.StartFailed {
		w.screen.Notice(fmt.Sprintf("task %d has no results: %v", t.ID, t.Err))
	}
}

// checkResults refuses a directory that holds the results of another run, because this run's results
// would mix with them. A run that resumes from a journal takes them for its own.
func (w *wiring) checkResults() error {
	o, dir := w.opts, w.source.results
	own := o.State.Reset || o.State.Dir != "" && journal.Exists(o.State.Dir) || o.Fed() || o.Makes.Any()
	if dir == "" || dir == "." || own || o.Show.DryRun || !sink.HoldsResults(dir) {
		return nil
	}
	return misuse(filepath.Clean(dir)+" holds the results of an earlier run", "give another directory, or remove that one")
}

// writesLogs reports whether the run writes a joblog or a directory of results.
func writesLogs(o *cli.Options) bool { return o.Output.Joblog != "" || o.Output.Results != "" }

// logsEmpty reports whether the joblog or the directory of --results is empty.
func logsEmpty(o *cli.Options, results string) bool {
	st, err := os.Stat(o.Output.Joblog)
	entries, _ := os.ReadDir(results)
	return o.Output.Joblog != "" && (err != nil || st.Size() == 0) || results != "" && len(entries) == 0
}

// announcer is a Recorder that prints each command before it runs.
type announcer struct {
	runner.Recorder
	verbose sink.Verbose
}

func (n announcer) Started(a task.Attempt, more bool) {
	n.verbose.Before(a)
	n.Recorder.Started(a, more)
}

// nullRecorder is a Recorder that records nothing.
type nullRecorder struct{}

func (nullRecorder) Started(task.Attempt, bool)             {}
func (nullRecorder) Ended(task.Attempt, *task.Result, bool) {}
func (nullRecorder) Idle()                                  {}

// inputInfo returns the facts about the input that sinks show.
func (w *wiring) inputInfo() sink.Input {
	in := sink.Input{Tasks: w.total.get, Elsewhere: w.opts.Do == cli.DoAttach}
	in.Resumable = !w.opts.Fed() && w.source.resumes() // in the files that the tasks made
	if w.state != nil {
		left, _ := w.state.Resumed()
		if in.Resumable, in.DoneBefore = true, int64(left.Done); w.opts.State.RetryFailed {
			in.DoneBefore -= int64(left.Failed)
		}
	}
	return in
}
