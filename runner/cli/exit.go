package cli

import (
	"syscall"
	"time"

	"crew/runner/catch"
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

// ending is how a run came to its end. The zero ending is a run in which
// nothing went wrong.
type ending struct {
	err    error          // why crew itself could not go on; may be a usageError
	signal syscall.Signal // what stopped the run: SIGINT, SIGHUP, SIGTERM or SIGQUIT, SIGPIPE where nobody reads stdout any more; 0 otherwise
	start  int            // 126 or 127 where the command cannot be started for any task, 1 where it cannot any more; 0 otherwise
	halt   *task.Result   // the task that fail=1 or a number of successes stopped the run for; nil otherwise
	failed int64          // how many tasks failed
	last   []string       // what is still to be said once all is closed: nothing of crew stands in the way of a signal then
}

// status is the exit status of a run that ended so. What crew could not do
// goes before what a person asked it to stop, and both before how the tasks
// fared.
func (e ending) status() int {
	switch {
	case isUsage(e.err):
		return statusUsage
	case e.err != nil:
		return statusTrouble
	case e.signal != 0:
		return statusSignal + int(e.signal)
	case e.start != 0:
		return e.start
	case e.halt != nil:
		return ownStatus(e.halt)
	case e.failed > 0:
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
	if e.err == nil {
		switch e.signal {
		case syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT:
			return dieBy(e.signal)
		}
	}
	return e.status()
}

// dieBy ends the process by sig, so that the parent sees WIFSIGNALED: bash
// stops a script at Ctrl-C only then. Where sig is ignored or blocked it
// returns the status that a shell would show for such a death.
func dieBy(sig syscall.Signal) int {
	ignored := catch.Ignored(sig)
	if !ignored {
		catch.Reset(sig)
	}
	if err := syscall.Kill(syscall.Getpid(), sig); err == nil && !ignored {
		// The kernel may deliver to another thread, a moment after kill returns.
		time.Sleep(time.Second)
	}
	return statusSignal + int(sig)
}
