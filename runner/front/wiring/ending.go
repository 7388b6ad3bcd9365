package wiring

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/front/cli"
)

// ending is how crew ends after a run.
type ending struct {
	err    error          // why crew failed; nil if it did not
	signal syscall.Signal // the signal that crew dies by; 0 for none
	group  bool           // whether the signal also goes to crew's process group
	status int            // the exit status, if err and signal are zero
	last   []string       // messages to print once crew no longer catches signals
}

// say adds messages to print at the end.
func (end *ending) say(lines ...string) { end.last = append(end.last, lines...) }

// exitStatus returns the exit status as a shell will see it.
func (end ending) exitStatus() int {
	switch {
	case end.err != nil:
		return printError(io.Discard, end.err)
	case end.signal != 0:
		return statusSignal + int(end.signal)
	}
	return end.status
}

// exit returns the status for os.Exit, or does not return: a shell expects crew to die by the
// signal that stopped it. Everything must have been closed before.
func (end ending) exit() int {
	if end.err == nil && end.signal != 0 {
		runner.Die(end.signal, end.group)
	}
	return end.exitStatus()
}

// ending returns how crew ends after a run that ended with e. It prints the warnings that must not
// wait for a reader of stderr.
func (w *wiring) ending(e core.Ending) ending {
	o := w.opts
	if o.Do == cli.DoServe {
		e.Stats = e.Stats.WithoutEarlier()
	}
	end := ending{status: statusOf(e, o.Failure)}
	if w.worker != nil && end.status == statusFailed {
		end.status = statusOK // the tasks' own runs report failures
	}
	end.explain(e, o)
	lost := w.stdout.LostOutput()
	if w.attached != nil && e.Reason == core.Completed && !e.Unshown && !lost {
		w.endAttached(&end)
	}
	end.say(w.inputNotes(e)...)
	if e.Unshown && end.err == nil {
		w.screen.TryUrgent("nothing reads the output any more: what was not written is lost")
	}
	w.warn(e, lost)
	if end.signal != 0 || e.Reason == core.PipeClosed {
		end.last = nil // exit without waiting for a reader of stderr
	} else if w.state != nil {
		end.say(stateNotes(w.state, w.plan.Plan, e, o.Makes.Any() || o.Silent() || o.Fed())...)
	}
	return end
}

// explain sets the error or the signal that a run ended with, or says which command could not run.
func (end *ending) explain(e core.Ending, o *cli.Options) {
	// After SIGHUP the terminal is gone, so writing to it fails.
	hungUp := e.Signal == int(syscall.SIGHUP) && errors.Is(e.Err, syscall.EIO)
	switch {
	case e.Reason == core.Broken && !hungUp:
		end.err = e.Err
	case e.Reason == core.Requested || hungUp:
		end.signal, end.group = syscall.Signal(e.Signal), e.Interrupted
	case e.Reason == core.BadCommand && end.status == statusTrouble:
		end.say(e.Result.Err.Error())
	case e.Reason == core.BadCommand:
		end.say(o.CannotRun(e.Result.Err, e.Result.Code))
	}
}

// endAttached removes a detached run after all results were shown, and ends with its status.
func (w *wiring) endAttached(end *ending) {
	status, early, err := w.attached.Finish()
	if end.status, end.err = status, err; early != "" {
		end.say("run " + w.opts.Ctl.Run + " ended early: " + early)
	}
}

// inputNotes returns messages about input that was empty, unknown to --times, or not read.
func (w *wiring) inputNotes(e core.Ending) (lines []string) {
	o := w.opts
	if e.Stats.InputEnd && e.Stats.Admitted == 0 && o.MayLackColons() && !o.Any("quiet pipe no-run-if-empty shard skip header eof") && !w.readsTerminal() {
		what := "values"
		if len(o.Words()) == 0 {
			what = "commands"
		}
		lines = append(lines, "nothing ran, because standard input holds no tasks: to give "+what+" on the command line, put ::: before them")
	}
	if e.Stats.InputEnd && e.Stats.Admitted > 0 {
		lines = append(lines, w.times.notes(o)...)
	}
	if o.Do == cli.DoRun && !o.Input.ReadsStdin() && !o.Any("quiet quiet-success dry-run") && inputUnread(w.in) {
		lines = append(lines, "standard input was not read: add :::: - to take values from it, or have the tasks read a file")
	}
	return lines
}

// warn prints warnings, without waiting for a reader, about lost results and about tasks that did not end.
func (w *wiring) warn(e core.Ending, lost bool) {
	if lost && e.Reason != core.PipeClosed {
		text := "results could not be shown: stdout was closed"
		if w.state != nil && w.plan.Recalls() {
			text += ": the same command shows what --state has kept"
		}
		w.screen.TryUrgent(text)
	}
	for _, err := range e.More {
		w.screen.TryUrgent(err.Error())
	}
	if n := e.Abandoned; n > 0 && !e.Unshown {
		w.screen.TryUrgent(fmt.Sprintf("gave up waiting for killed tasks that did not end: %d", n))
	}
}
