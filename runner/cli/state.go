package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner"
	"crew/runner/journal"
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
	j, err := journal.Open(journal.Config{
		Dir: o.State.Dir, Command: command,
		Past: journal.Past{
			Replay: o.State.Replay, RetryFailed: o.State.RetryFailed, Reset: o.State.Reset, Costs: o.Sched.LongestFirst,
		},
		Output:      journal.Output{Plan: w.plan, Logs: o.Output.logs(), Null: w.plan.Recalls() && maybeNobody(w.out)},
		SameCommand: same, Notice: w.notice, Slack: slack,
	})
	if err != nil {
		return stateError(err)
	}
	w.state = j
	w.close = append(w.close, j.Close)
	if left, ok := j.Resumed(); ok && !o.Show.Quiet && left.Tasks+left.Interrupted > 0 {
		text := fmt.Sprintf("going on in %s: %d done", o.State.Dir, left.Tasks)
		if left.Failed > 0 {
			text += fmt.Sprintf(", %d of them failed", left.Failed)
		}
		if left.Interrupted > 0 {
			text += fmt.Sprintf(", %d interrupted", left.Interrupted)
		}
		w.notice(text)
	}
	return nil
}

// maybeNobody says whether stdout may have been closed from the start: Go's
// runtime opens /dev/null for reading and writing in its place, which a caller
// hardly does.
func maybeNobody(stdout *os.File) bool {
	var out, null unix.Stat_t
	if unix.Fstat(int(stdout.Fd()), &out) != nil || unix.Stat(os.DevNull, &null) != nil || out.Rdev != null.Rdev {
		return false
	}
	flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0)
	return err == nil && out.Mode&unix.S_IFMT == unix.S_IFCHR && flags&unix.O_ACCMODE == unix.O_RDWR
}

// stateError is an error of the journal, a mistake in usage where it is one.
func stateError(err error) error {
	var wrong *journal.WrongDir
	if errors.As(err, &wrong) {
		return &usageError{msg: err.Error()}
	}
	return err
}

// tasks is where the run gets its tasks from.
func (w *wiring) tasks() runner.Source {
	if w.state == nil {
		return w.source.tasks
	}
	return w.state.Source(w.source.tasks)
}

// recorder is what is told of attempts, if anything.
func (w *wiring) recorder() runner.Recorder {
	if w.state == nil {
		return nil
	}
	return w.state
}

// unkept says what a replay could not show, if anything.
func (w *wiring) unkept() string {
	if w.state == nil || !w.plan.Keeps() && !w.plan.Streams() || w.state.Unkept() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of the replayed tasks ran under --output line, raw or none, which keep no output", w.state.Unkept())
}

// missing says which tasks of earlier runs the input lacks, if it was read to its
// end.
func (w *wiring) missing(e runner.Ending) []string {
	if w.state == nil || !e.Stats.InputEnd || e.Reason > runner.Halted {
		return nil
	}
	first, n := w.state.Missing()
	if n == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf(
		"%d tasks that an earlier run began and did not finish are not in this input: to run them, give their records again", n)}
	if n == 1 {
		lines[0] = "a task that an earlier run began and did not finish is not in this input: to run it, give its record again"
	}
	for _, m := range first {
		lines = append(lines, "  "+printable(m.Command))
	}
	if more := n - len(first); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", more))
	}
	return lines
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
