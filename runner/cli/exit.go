package cli

import (
	"errors"
	"syscall"

	"crew/runner"
	"crew/runner/proc"
	"crew/runner/task"
)

// The exit statuses of crew; the man page has the same table.
const (
	statusOK         = 0
	statusTrouble    = 1   // crew itself could not go on
	statusUsage      = 2   // the command line makes no sense
	statusFailed     = 123 // some task failed; xargs's number
	statusTimeout    = 124 // a task's own, where its time was over; timeout(1)'s number
	statusCannotExec = 126 // the command cannot be executed, for every task
	statusNotFound   = 127 // the command is not found, for every task
	statusSignal     = 128 // and the signal's number
)

// ending is what is left to do when a run is over.
type ending struct {
	err    error          // what crew itself could not do; may be a usageError
	signal syscall.Signal // what crew dies by; 0 for none
	status int            // the exit status, where neither of these says it
	last   []string       // what is still to be said once all is closed: nothing of crew stands in the way of a signal then
}

// statusOf is the exit status of a run: the table of CLI.md section 5, by why it
// ended. Broken, which is an error, is not asked for.
func statusOf(e runner.Ending, halt Halt) int {
	switch {
	case e.Reason == runner.Unread:
		return statusSignal + int(syscall.SIGPIPE)
	case e.Reason == runner.Told && e.Signal != 0:
		return statusSignal + e.Signal
	case e.Reason == runner.BadCommand && errors.Is(e.Result.Err, proc.ErrInVain): // it may have run before
		return statusTrouble
	case e.Reason == runner.BadCommand:
		return e.Result.Code
	case e.Reason == runner.Halted && (halt.On == "success" || halt.On == "fail" && halt.N == 1 && !halt.Percent):
		return ownStatus(e.Result)
	case e.Stats.Failed() > 0:
		return statusFailed
	}
	return statusOK
}

// ownStatus is a task's result as an exit status, as a shell or timeout(1)
// would give it.
func ownStatus(r *task.Result) int {
	switch r.Outcome {
	case task.OK:
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

// exit is the last thing of a run: the status for os.Exit, or no return at all
// where a shell expects crew to die by the signal that stopped it. Everything
// must be closed before.
func (e ending) exit() int {
	switch {
	case isUsage(e.err):
		return statusUsage
	case e.err != nil:
		return statusTrouble
	case e.signal != 0:
		runner.Die(e.signal)
		return statusSignal + int(e.signal)
	}
	return e.status
}
