package wiring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/journal"
	"crew/runner/task"
)

// slack is how many superfluous bytes a journal can hold before it is compacted.
const slack = 64 << 10

// openState opens the journal with --state, and says what an earlier run left.
func (w *wiring) openState() error {
	o := w.opts
	if o.State.Dir == "" {
		return nil
	}
	dir, err := filepath.Abs(o.Pool.Workdir) // of "": the working directory
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	var queue *journal.Queue
	if o.Do == cli.DoServe {
		queue = &journal.Queue{Keep: o.Serve.Keep}
	}
	j, err := journal.Open(journal.Config{
		Dir: o.State.Dir, Command: journal.Command{Line: o.Identity(), Dir: dir}, Queue: queue,
		Past: journal.Past{
			Replay: o.State.Replay, Recall: o.Output.JUnit != "", RetryFailed: o.State.RetryFailed, Reset: o.State.Reset, Costs: o.Sched.LongestFirst,
		},
		Output:      journal.Output{Plan: w.plan, Logs: keepsLogs(o), Null: w.plan.Recalls() && maybeClosed(w.out)},
		SameCommand: w.source.sameCommand(), Notice: w.screen.Notice, Slack: slack,
	})
	var wrong *journal.WrongDir
	switch {
	case errors.As(err, &wrong):
		return misuse(err.Error(), "")
	case err != nil:
		return err
	}
	w.state = j
	w.close = append(w.close, j.Close)
	if left, ok := j.Resumed(); ok && !o.Silent() && o.Do != cli.DoServe && left.Tasks+left.Interrupted > 0 {
		text := fmt.Sprintf("going on in %s: %d done", o.State.Dir, left.Tasks)
		if left.Failed > 0 {
			text += fmt.Sprintf(", %d of them failed", left.Failed)
		}
		if left.Interrupted > 0 {
			text += fmt.Sprintf(", %d interrupted", left.Interrupted)
		}
		w.screen.Notice(text)
	}
	return nil
}

// maybeClosed reports whether stdout was probably closed when crew was started:
// Go's runtime then opens /dev/null for reading and writing instead, which hardly
// any caller does.
func maybeClosed(stdout *os.File) bool {
	flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR && isNull(stdout)
}

// stateNotes returns what to say about earlier runs at the end: results that could
// not be replayed and, if the input was read to its end, tasks that it lacks.
func stateNotes(j *journal.Journal, plan task.Plan, e core.Ending) (lines []string) {
	if n := j.Unkept(); n > 0 && (plan.Keeps() || plan.Streams()) {
		lines = append(lines, fmt.Sprintf(
			"%d of the replayed tasks ran under --output line, raw or none, which keep no output", n))
	}
	if !e.Stats.InputEnd || e.Reason > core.Halted {
		return lines
	}
	first, n := j.Missing()
	switch n {
	case 0:
		return lines
	case 1:
		lines = append(lines,
			"a task that an earlier run began and did not finish is not in this input: to run it, give its record again")
	default:
		lines = append(lines, fmt.Sprintf(
			"%d tasks that an earlier run began and did not finish are not in this input: to run them, give their records again", n))
	}
	for _, m := range first {
		lines = append(lines, "  "+task.Printable(string(m.Command)))
	}
	if more := n - len(first); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", more))
	}
	return lines
}
