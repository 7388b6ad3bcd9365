package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crew/runner"
	"crew/runner/journal"
	"crew/runner/sink"
	"crew/runner/task"
)

// slack is what a journal may hold beyond need before it is compacted.
const slack = 64 << 10

// meaning are the options that say what tasks are, whatever records come: a
// journal of other ones is another command's.
var meaning = [...]string{
	"colsep", "csv", "header", "input", "max-args", "max-chars", "replace", "stdin", "workdir", "shell",
}

// commandOf is what the journal goes by.
func commandOf(o *Options) (journal.Command, error) {
	words := []string{"crew"}
	for _, name := range meaning {
		u := o.given(name)
		if u == nil {
			continue
		}
		words = append(words, u.opt.typed())
		if u.opt.value != "" {
			words = append(words, task.Quote(u.value))
		}
	}
	for _, w := range o.Command.Words {
		words = append(words, task.Quote(w))
	}
	dir := o.Pool.Workdir
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return journal.Command{}, fmt.Errorf("find the working directory: %w", err)
	}
	return journal.Command{Line: strings.Join(words, " "), Dir: dir}, nil
}

// openState opens the journal, if there is to be one.
func (w *wiring) openState() error {
	o := w.opts
	if o.State.Dir == "" {
		return nil
	}
	command, err := commandOf(o)
	if err != nil {
		return err
	}
	_, same := w.source.command()
	again := retry(o.Failure)
	j, err := journal.Open(journal.Config{
		Dir: o.State.Dir, Command: command,
		Past: journal.Past{
			Replay: o.State.Replay, RetryFailed: o.State.RetryFailed, Reset: o.State.Reset, Costs: o.Sched.LongestFirst,
		},
		Show: shown(o.Output),
		Final: func(r *task.Result) bool {
			return r.Attempt > again.Max || !again.On(r)
		},
		SameCommand: same, Notice: w.notice, Slack: slack,
	})
	if err != nil {
		return stateError(err)
	}
	w.state = j
	w.close = append(w.close, j.Close)
	if tasks, failed, interrupted, ok := j.Resumed(); ok && !o.Show.Quiet && tasks+interrupted > 0 {
		text := fmt.Sprintf("going on in %s: %d done", o.State.Dir, tasks)
		if failed > 0 {
			text += fmt.Sprintf(", %d of them failed", failed)
		}
		if interrupted > 0 {
			text += fmt.Sprintf(", %d interrupted", interrupted)
		}
		w.notice(text)
	}
	return nil
}

// stateError is an error of the journal, a mistake in usage where it is one.
func stateError(err error) error {
	var other *journal.DifferentCommand
	var foreign *journal.ForeignDir
	if errors.As(err, &other) || errors.As(err, &foreign) {
		return &usageError{msg: err.Error()}
	}
	return err
}

// showsAttempts says that what failed attempts wrote is shown with the last one.
func (o Output) showsAttempts() bool { return o.JSON && o.Mode != "none" }

// shown is how the journal has to think of outputs.
func shown(o Output) journal.Show {
	switch {
	case o.showsAttempts():
		return journal.KeptAll
	case o.Mode == "line" && o.KeepOrder:
		return journal.HeldBack
	case o.Mode == "line", o.Mode == "raw":
		return journal.Streamed
	case o.Mode == "none" && o.Results == "":
		return journal.Dropped
	}
	return journal.Kept
}

// tasks is where the run gets its tasks from.
func (w *wiring) tasks() runner.Source {
	if w.state == nil {
		return w.source.tasks
	}
	return w.state.Source(w.source.tasks)
}

// recorded is what runs attempts, with a record where one is kept.
func (w *wiring) recorded(exec runner.Executor) runner.Executor {
	if w.state == nil {
		return exec
	}
	return w.state.Executor(exec)
}

// recording are the sinks that go before all others, and what takes the place
// of the one that shows results.
func (w *wiring) recording(show runner.Sink) (first []runner.Sink, last runner.Sink) {
	if w.state == nil {
		return nil, show
	}
	return []runner.Sink{w.state.Commit()}, w.state.Shown(show)
}

// unkept says what a replay could not show, if anything.
func (w *wiring) unkept() string {
	if w.state == nil || shown(w.opts.Output) == journal.Dropped || w.state.Unkept() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of the replayed tasks ran under --output line, raw or none, which keep no output", w.state.Unkept())
}

// openJoblog opens the joblog: behind what it holds where a run goes on and
// does not tell everything once more.
func (w *wiring) openJoblog(path string) (*sink.Joblog, error) {
	if w.state != nil && !w.opts.State.Replay {
		if _, _, _, resumed := w.state.Resumed(); resumed {
			return sink.AppendJoblog(path)
		}
	}
	return sink.OpenJoblog(path)
}

// stateCommand is "crew state DIR": the journal as JSON lines, or on a terminal
// what is to be said about it.
func stateCommand(args []string, stdout, stderr *os.File) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return complain(stderr, &usageError{
			"crew state takes one directory", "write crew state DIR, or crew -- state for a program of that name",
		})
	}
	err := printState(args[0], stdout)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return complain(stderr, fmt.Errorf("%s holds no journal", args[0]))
	case err != nil:
		return complain(stderr, err)
	}
	return statusOK
}
