package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/show/report"
	"crew/runner/show/sink"
)

// openSinks opens the outputs and lists them in the order in which they get events, behind
// firstSinks: stdout after all that read outputs, because it takes those
// that have to wait for their turn, and the progress bar last.
func (w *wiring) openSinks() error {
	o := w.opts
	show := &o.Show
	cfg := sink.StdoutConfig{Plan: w.plan.Plan, Records: w.source.records(), Store: w.store, Group: w.openLog()}
	in := w.known()
	terminal := sink.NewTerminal(w.screen, sink.TerminalConfig{
		Progress: w.plan.progress, Explain: show.Verbose, Input: in, Raw: w.plan.Show == task.ShowRaw,
		Typed: w.typed(), Silent: o.Silent(),
	})
	w.stdout = sink.NewStdout(w.screen, cfg)
	logs, err := w.logs()
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
		if w.detached != nil {
			stdout = w.detached.WrapSink(w.stdout)
		}
		sinks, stdout = append(sinks, w.state.Logs(logs...)), w.state.Shown(stdout)
	}
	if path := o.Output.JUnit; path != "" { // it is renamed in the end
		if err := w.replaceable("--junit", path); err != nil {
			return err
		}
		junit, err := report.OpenJUnit(path, cmp.Or(o.Control.Name, strings.Join(o.Words(), " ")))
		if err != nil {
			return err
		}
		w.onClose(junit.Drop)
		sinks = append(sinks, junit)
	}
	if o.Any("report trace") {
		record, err := w.openRecord()
		if err != nil {
			return err
		}
		sinks = append(sinks, record)
	}
	if !show.Quiet || o.After.Notify != "" {
		w.digest = sink.NewDigest(w.screen, in, w.source.rerun())
		w.digest.FailedOnly, w.digest.FlakyFail, w.digest.MissingHosts = w.plan.FailedOnly, o.Failure.FlakyFail, w.missing
		w.digest.Quiet = show.Quiet
		sinks = append(sinks, tells(o, w.digest))
	}
	if w.plan.ci == "github" {
		sinks = append(sinks, tells(o, w.annotate()))
	}
	if show.Verbose || show.DryRun {
		verbose := sink.NewVerbose(w.screen)
		verbose.WhyOnly, verbose.Announced = !show.Verbose, w.plan.announces
		sinks = append(sinks, verbose)
	}
	if sinks = append(sinks, stdout); w.plan.failures {
		sinks = append(sinks, sink.NewFailures(w.screen))
		w.digest.FailuresShown = w.digest != nil
	}
	w.sinks = append(sinks, tells(o, terminal))
	return nil
}

// logs opens the sinks that keep results in files.
func (w *wiring) logs() (logs []journal.Log, err error) {
	o := w.opts
	out := &o.Output
	resumed := false
	if w.state != nil {
		_, resumed = w.state.Resumed()
	}
	anew := o.State.Replay || logsEmpty(o, w.source.results)
	if resumed && anew && keepsLogs(o) {
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
		case anew && !out.Append:
			starts = nil
		}
		log, err := sink.OpenJoblog(path, mode, starts)
		if err != nil {
			return nil, placed(err, path)
		}
		logs = append(logs, log)
	}
	if dir := w.source.results; dir != "" {
		tree, err := sink.OpenResults(dir, w.source.tasks.Results, w.source.records())
		if err != nil {
			return nil, placed(err, filepath.Join(dir, "1"))
		}
		logs = append(logs, tree)
	}
	return logs, nil
}

// checkResults refuses a directory with the results of another run, which those of this one would
// mix with. A run that goes on from a journal takes them for its own.
func (w *wiring) checkResults() error {
	o, dir := w.opts, w.source.results
	own := o.State.Reset || o.State.Dir != "" && journal.Exists(o.State.Dir) || o.Fed() || o.Makes.Any()
	if dir == "" || dir == "." || own || o.Show.DryRun || !sink.HoldsResults(dir) {
		return nil
	}
	return misuse(filepath.Clean(dir)+" holds the results of an earlier run", "give another directory, or remove that one")
}

// placed adds to the error of a file that cannot be opened what is wrong with the directory that
// is to hold it, if that is missing or is none.
func placed(err error, path string) error {
	switch dir := filepath.Dir(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: mkdir -p %s makes its directory", err, task.Quote(dir))
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: give the name of a file", err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		for up := dir; up != "." && up != "/"; up = filepath.Dir(up) {
			if st, gone := os.Stat(up); gone == nil && !st.IsDir() {
				return fmt.Errorf("%w: %s is a file: give a directory, or another name", err, up)
			}
		}
	}
	return err
}

// keepsLogs reports whether results are kept in files.
func keepsLogs(o *cli.Options) bool { return o.Output.Joblog != "" || o.Output.Results != "" }

// logsEmpty reports whether the joblog and the directory for results hold nothing
// yet.
func logsEmpty(o *cli.Options, results string) bool {
	if st, err := os.Stat(o.Output.Joblog); err == nil && st.Size() > 0 {
		return false
	}
	entries, err := os.ReadDir(results)
	return err != nil || len(entries) == 0
}

// announced is a Recorder that prints each command before it runs.
type announced struct {
	runner.Recorder
	verbose sink.Verbose
}

func (n announced) Started(a task.Attempt, more bool) {
	n.verbose.Before(a)
	n.Recorder.Started(a, more)
}

// unrecorded is the Recorder of a run that needs none.
type unrecorded struct{}

func (unrecorded) Started(task.Attempt, bool)             {}
func (unrecorded) Ended(task.Attempt, *task.Result, bool) {}
func (unrecorded) Idle()                                  {}

// known returns what is known of the input.
func (w *wiring) known() sink.Input {
	in := sink.Input{Tasks: w.total.get, Elsewhere: w.opts.Do == cli.DoAttach}
	in.Resumable = !w.opts.Fed() && w.source.goesOn() // in the files
	if w.state != nil {
		left, _ := w.state.Resumed()
		if in.Resumable, in.DoneBefore = true, int64(left.Done); w.opts.State.RetryFailed {
			in.DoneBefore -= int64(left.Failed)
		}
	}
	return in
}
