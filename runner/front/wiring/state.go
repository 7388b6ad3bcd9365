package wiring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

const (
	journalSlack   = 64 << 10         // superfluous bytes in a journal before it is compacted
	replaceTimeout = 10 * time.Second // for another crew serve to make its socket, or to end without one
)

// openState opens the journal with --state.
func (w *wiring) openState() error {
	o := w.opts
	if o.State.Dir == "" {
		return nil
	}
	dir, err := filepath.Abs(o.Pool.Workdir) // Abs("") is the working directory
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // a shell's $PWD may hold symbolic links
	}
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	var queue *journal.Queue
	if o.Do == cli.DoServe {
		queue = &journal.Queue{Keep: o.Serve.Keep}
	}
	j, err := w.openJournal(journal.Config{
		Dir: o.State.Dir, Command: journal.Command{Line: o.Identity(), Dir: dir, Programs: programs(o, dir)}, Queue: queue,
		Resume: journal.Resume{
			Replay: o.State.Replay, Recall: o.Output.JUnit != "", RetryFailed: o.State.RetryFailed, Reset: o.State.Reset, Changed: o.State.Changed, Costs: o.Sched.Order != "",
		},
		Output:      journal.Output{Plan: w.plan.Plan, Logs: writesLogs(o), MaybeClosed: w.plan.Recalls() && maybeClosed(w.out), All: w.detached != nil},
		SameCommand: w.plan.limits.Halt.SameCommand, Notice: w.screen.Notice, Slack: journalSlack,
	})
	var wrong *journal.WrongDir
	switch {
	case errors.As(err, &wrong):
		return misuse(err.Error(), "")
	case err != nil:
		return err
	}
	w.state, w.tasks = j, j.Source(w.tasks)
	w.onEnd(j.Close)
	return nil
}

// openJournal opens the journal. A crew serve first waits until another crew serve of the same name
// that uses the journal ends.
func (w *wiring) openJournal(cfg journal.Config) (*journal.Journal, error) {
	other, seen := 0, time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		j, err := journal.Open(cfg)
		busy, ok := errors.AsType[*journal.InUse](err)
		if !ok || cfg.Queue == nil || busy.PID == 0 {
			return j, err
		}
		if busy.PID != other {
			h, gone := control.Find(strconv.Itoa(busy.PID))
			none := gone != nil || h.State == control.Silent // it has no socket yet, or no longer one
			if none && time.Since(seen) < replaceTimeout {
				continue
			}
			if none || !h.Feeds || h.Name != w.opts.Control.Name {
				return nil, err
			}
			other = busy.PID
			w.remark(fmt.Sprintf("waiting for process %d, the crew serve that uses %s: crew ctl drain %d ends it", other, cfg.Dir, other))
		}
		seen = time.Now()
	}
}

// reportResumed reports the tasks that earlier runs left, and the programs that have changed since.
func (w *wiring) reportResumed() error {
	o := w.opts
	if w.state == nil {
		return nil
	}
	if left, ok := w.state.Resumed(); ok && o.Do != cli.DoServe && left.Done+left.Running > 0 {
		text := fmt.Sprintf("%d done", left.Done)
		if left.Failed > 0 {
			text += fmt.Sprintf(", %d of them failed", left.Failed)
		}
		w.remarkResumed(text, left.Running)
	}
	if changed := w.state.ChangedPrograms(); len(changed) > 0 {
		how := "--rerun-changed runs all tasks again, as --state-reset does"
		if o.State.Changed {
			how = "all tasks run again"
		}
		w.remark("changed since the tasks ran: " + strings.Join(changed, ", ") + ": " + how)
	}
	return nil
}

// remarkResumed says that the run resumes from the journal, with text and the number of interrupted tasks.
func (w *wiring) remarkResumed(text string, interrupted int) {
	if interrupted > 0 {
		text += fmt.Sprintf(", %d interrupted", interrupted)
	}
	w.remark("resuming from " + w.opts.State.Dir + ": " + text)
}

// maybeClosed reports whether stdout was probably closed when crew was started. Go's runtime then opens
// /dev/null for reading and writing in its place, which hardly any caller does.
func maybeClosed(stdout *os.File) bool {
	flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR && isNull(stdout)
}

// stateNotes returns the messages about earlier runs at the end. It counts results that could not be
// replayed. If the input was read to its end, it also says that all tasks were done before, unless quiet,
// and lists unfinished tasks that this input lacks.
func stateNotes(j *journal.Journal, plan task.Plan, e core.Ending, quiet bool) (lines []string) {
	if n := j.Unkept(); n > 0 && (plan.Keeps() || plan.Streams()) {
		lines = append(lines, fmt.Sprintf(
			"%d of the replayed tasks ran under --output line, raw or none, which keep no output", n))
	}
	if !e.Stats.InputEnd || e.Reason > core.Halted {
		return lines
	}
	if n := e.Stats.Resumed(); n > 0 && n == e.Stats.Admitted && !quiet {
		lines = append(lines, fmt.Sprintf("nothing to do: %d of %d done before, with the same commands", n, n))
	}
	first, n := j.Missing()
	if n > 0 {
		lines = append(lines, "not in this input: "+task.Count(int64(n), "task")+" that an earlier run started and did not finish: add what is missing to the input")
	}
	for _, m := range first {
		lines = append(lines, "  "+task.Printable(string(m.Command)))
	}
	if more := n - len(first); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", more))
	}
	return lines
}
