package wiring

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

// The exit statuses of crew. The man page has the same table.
const (
	statusOK         = 0
	statusTrouble    = 1   // crew itself failed
	statusUsage      = 2   // the command line is wrong
	statusBusy       = 75  // the queue of a crew serve is full or ends, or --lock is held; EX_TEMPFAIL of sysexits.h
	statusFailed     = 123 // a task failed, was cancelled or not run; as xargs
	statusTimeout    = 124 // --deadline, or the task's own status if it timed out; as timeout(1)
	statusCannotExec = 126 // the command of all tasks cannot be executed
	statusNotFound   = 127 // the command of all tasks is not found
	statusSignal     = 128 // plus the number of the signal
)

// misuse returns a usage error with a message and a hint.
func misuse(msg, hint string) error { return &cli.UsageError{Msg: msg, Hint: hint} }

// failure returns an error with its own exit status. The text is "" if the error was already reported, or needs
// no report. Clients of a feed get both.
func failure(status int, text string) error { return &control.Refused{Text: text, Status: status} }

// printError prints err on w as one line, unless its text is empty, and returns its exit status:
// statusOK if err is nil.
func printError(w io.Writer, err error) int {
	if err == nil {
		return statusOK
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintf(w, "crew: %s\n", task.Printable(text)) // if stderr is closed, the status must do
	}
	if _, usage := errors.AsType[*cli.UsageError](err); usage {
		return statusUsage
	}
	if refused, ok := errors.AsType[*control.Refused](err); ok {
		return refused.Status
	}
	return statusTrouble
}

// statusOf returns the exit status of a run that ended for any reason except Broken or a signal.
func statusOf(e core.Ending, f cli.Failure) int {
	switch {
	case e.Reason == core.PipeClosed:
		return statusSignal + int(syscall.SIGPIPE)
	case e.Reason == core.BadCommand && errors.Is(e.Result.Err, proc.ErrNotExecutable): // the command may have run before
		return statusTrouble
	case e.Reason == core.BadCommand:
		return e.Result.Code
	case e.Reason == core.Late:
		return statusTimeout
	case e.Reason == core.Halted && exitsAsTask(f.Halt):
		return taskStatus(e.Result)
	case e.Stats.Failed() > 0, f.FlakyFail && e.Stats.Flaky > 0,
		e.Reason != core.Halted && e.Stats.ByOutcome[task.Cancelled]+e.Stats.ByOutcome[task.NotRun] > 0, // at somebody's command
		e.Reason == core.Requested && !e.Stats.InputEnd:
		return statusFailed
	}
	return statusOK
}

// exitsAsTask reports whether a run that --halt ended has the exit status of the task that
// triggered it.
func exitsAsTask(h core.Halt) bool {
	return h.When != core.Pause && (h.On == core.OnSuccess || h.On == core.OnFail && h.N == 1 && !h.Percent)
}

// taskStatus returns the exit status that a shell or timeout(1) would give for a result.
func taskStatus(r *task.Result) int {
	switch r.Outcome {
	case task.OK, task.Skipped:
		return statusOK
	case task.Exit, task.StartFailed:
		return r.Code
	case task.Signal:
		return statusSignal + r.Signal
	case task.Timeout:
		return statusTimeout
	}
	return statusFailed
}
