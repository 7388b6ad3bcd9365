package wiring

import (
	"cmp"
	"context"
	"os"
	"time"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

// Orders say how the hub runs the tasks of a detached run. They are stored as JSON.
type Orders struct {
	Words       []string `json:"words,omitempty"`        // options; see cli.Options.DetachWords
	SameCommand bool     `json:"same_command,omitempty"` // all tasks run the same program
}

// DetachedRun is a detached run in the process that submits it for the hub.
type DetachedRun struct {
	Orders
	Name    string // "" for none
	Command string // for display
	Tasks   uint64
	Paused  bool   // it was paused when an earlier process ended
	State   string // directory of the journal
	Source  runner.Source

	Finish func(s *task.Stats, status int, early string) error // records the end of the run, and why it ended early, if it did
}

// RunDetached runs the tasks of a detached run and returns the exit status of the process. statusUsage
// means that the run can never be submitted.
func RunDetached(h *DetachedRun, far *Far) int {
	o, err := cli.ParseDetached(h.Words)
	if err != nil {
		return printError(os.Stderr, err)
	}
	o.Engine.URL, o.Engine.Reach, o.State.Dir, o.Control.Name = "here", 0, h.State, h.Name
	p, err := newPlan(o, func(string) string { return "" }, false)
	if err != nil {
		return printError(os.Stderr, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return printError(os.Stderr, err)
	}
	defer null.Close()
	w := newWiring([]string{"crew"}, o, p, far, null, null, os.Stderr)
	w.detached, w.command, w.plan.Show, w.plan.Copy = h, h.Command, task.ShowNothing, true
	w.plan.limits.Feed.Remember, w.plan.socketAfter = false, control.NoSocket // clients come through the hub
	return printError(os.Stderr, w.execute().err)
}

// finishDetached records how a detached run ended. If the process failed, it records nothing, so that a
// later process can resume the run.
func (w *wiring) finishDetached(e core.Ending) ending {
	if e.Reason == core.Broken {
		return ending{err: e.Err}
	}
	why := map[core.Reason]string{
		core.Halted: "--halt ended it", core.Late: "its --deadline has passed", core.BadCommand: "its command cannot be run",
	}[e.Reason]
	status := statusOf(e, w.opts.Failure)
	if e.Reason == core.Requested && status != statusOK { // otherwise every task has run
		why = "it was " + cmp.Or(e.Err, task.ErrCancelled).Error()
	}
	return ending{err: w.detached.Finish(&e.Stats, status, why)}
}

// detach stores the tasks of a run at the hub and prints the name of the run.
func (w *wiring) detach() (end ending) {
	if end.err = w.openInput(); end.err == nil {
		end.err = w.catchSignals()
	}
	if end.err != nil {
		return end
	}
	w.signals.Release()
	ctx, cancel := context.WithCancel(context.Background())
	orders := Orders{w.opts.DetachWords(time.Now()), w.plan.limits.Halt.SameCommand}
	run := ""
	sig, done := w.signals.Await(func() { run, end.err = w.far.Detach(ctx, w.call(), orders, w.source.tasks) })
	end.signal = sig
	cancel()
	<-done
	switch {
	case run != "":
		end.err = printText(w.out, run+"\n")
	case end.err == nil:
		w.screen.TryUrgent("not all tasks were stored at the hub, so it keeps none of them")
	}
	return end
}

// attach connects to the detached run, to show its results.
func (w *wiring) attach() (err error) {
	if w.opts.Do != cli.DoAttach {
		return nil
	}
	w.attached, err = w.far.Attach(w.call())
	if err == nil {
		w.onEnd(w.attached.Close)
		w.tasks = completingSource{w.attached, w.source.tasks.Tag}
		w.total.set(w.attached.Tasks())
	}
	return err
}
