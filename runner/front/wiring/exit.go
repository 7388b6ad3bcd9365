package wiring

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

// The exit statuses of crew. The man page has the same table.
const (
	statusOK         = 0
	statusTrouble    = 1   // crew itself could not go on
	statusUsage      = 2   // the command line is wrong
	statusBusy       = 75  // the queue of a crew serve is full or ends, or --lock is held; EX_TEMPFAIL of sysexits.h
	statusFailed     = 123 // a task failed, was cancelled or not run; as xargs
	statusTimeout    = 124 // --deadline, or the task's own status if it timed out; as timeout(1)
	statusCannotExec = 126 // the command of all tasks cannot be executed
	statusNotFound   = 127 // the command of all tasks is not found
	statusSignal     = 128 // plus the number of the signal
)

// misuse returns a mistake in usage: what is wrong, and what to write instead.
func misuse(msg, hint string) error { return &cli.UsageError{Msg: msg, Hint: hint} }

// failure is an error with an exit status of its own. Without a text it was told
// already, or needs no telling.
type failure struct {
	text   string
	status int
}

func (f *failure) Error() string { return f.text }

// complain prints err on w as one line, if there is anything to tell, and returns its
// exit status, which is statusOK for nil.
func complain(w io.Writer, err error) int {
	if err == nil {
		return statusOK
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintf(w, "crew: %s\n", task.Printable(text)) // without a stderr, only the status tells
	}
	if _, usage := errors.AsType[*cli.UsageError](err); usage {
		return statusUsage
	}
	if own, ok := errors.AsType[*failure](err); ok {
		return own.status
	}
	if refused, ok := errors.AsType[*control.Refused](err); ok {
		return refused.Status
	}
	return statusTrouble
}

// ending says how crew ends after a run.
type ending struct {
	err    error          // why crew could not go on; nil if it could
	signal syscall.Signal // the signal that crew dies by; 0 for none
	group  bool           // with its process group
	status int            // the exit status, if err and signal are zero
	last   []string       // messages to print once crew no longer catches signals
}

// statusOf returns the exit status of a run that did not end as Broken.
func statusOf(e core.Ending, f cli.Failure) int {
	switch halt := f.Halt; {
	case e.Reason == core.PipeClosed:
		return statusSignal + int(syscall.SIGPIPE)
	case e.Reason == core.Requested && e.Signal != 0:
		return statusSignal + e.Signal
	case e.Reason == core.BadCommand && errors.Is(e.Result.Err, proc.ErrInVain): // the command may have run before
		return statusTrouble
	case e.Reason == core.BadCommand:
		return e.Result.Code
	case e.Reason == core.Late:
		return statusTimeout
	case e.Reason == core.Halted && endsAsTask(halt):
		return taskStatus(e.Result)
	case e.Stats.Failed() > 0, f.FlakyFail && e.Stats.Flaky > 0:
		return statusFailed
	case e.Reason != core.Halted && e.Stats.Of(task.Cancelled)+e.Stats.Of(task.NotRun) > 0,
		e.Reason == core.Requested && !e.Stats.InputEnd:
		return statusFailed // what was asked for was not done, at somebody's command
	}
	return statusOK
}

// endsAsTask reports whether a run that --halt ends has the exit status of the task that
// ended it.
func endsAsTask(h core.Halt) bool {
	return h.When != core.Pause && (h.On == core.OnSuccess || h.On == core.OnFail && h.N == 1 && !h.Percent)
}

// taskStatus returns a result as the exit status that a shell or timeout(1) has
// for it.
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

// willExit returns the exit status as a shell will see it.
func (e ending) willExit() int {
	switch {
	case e.err != nil:
		return complain(io.Discard, e.err)
	case e.signal != 0:
		return statusSignal + int(e.signal)
	}
	return e.status
}

// exit returns the status for os.Exit, or does not return: a shell expects crew
// to die by the signal that stopped it. Everything must be closed before.
func (e ending) exit() int {
	if e.err == nil && e.signal != 0 {
		runner.Die(e.signal, e.group)
	}
	return e.willExit()
}
