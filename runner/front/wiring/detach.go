package wiring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
)

// HandOver describes a run whose tasks are stored, for the hub to submit them.
type Detachment struct {
	Place
	Load
	Orders Orders
	Notice func(string)
}

// Orders say how the hub runs the tasks of a run that was handed over. They are stored as
// JSON.
type Orders struct {
	Words       []string `json:"words,omitempty"`        // options; see cli.Options.Carried
	SameCommand bool     `json:"same_command,omitempty"` // all tasks run the same program
}

// Handed is a run that was handed over, in the process that submits it.
type DetachedRun struct {
	Orders
	Name     string // "" for none
	Command  string // for people
	Tasks    uint64
	Paused   bool   // it was, when an earlier process ended
	State    string // directory of the journal
	Source   runner.Source
	Results  *os.File                      // to which the results go, in input order; see task.ShowFrames
	WrapSink func(runner.Sink) runner.Sink // wraps the sink that writes them

	Do     func(c task.Command, do func(task.Command) task.Reply) task.Reply // carries out a command by do
	Finish func(s *task.Stats, status int, early string) error               // the run has ended, and why early, if it did
}

// RunHanded runs the tasks of a run that was handed over, and returns the exit status. statusUsage says
// that it never can.
func RunDetached(h *DetachedRun, far *Far) int {
	o, err := cli.ParseCarried(h.Words)
	if err != nil {
		return complain(os.Stderr, err)
	}
	o.Engine.URL, o.Engine.Reach, o.State.Dir, o.Control.Name = "here", 0, h.State, h.Name
	p, err := planOf(o, func(string) string { return "" }, false)
	if err != nil {
		return complain(os.Stderr, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return complain(os.Stderr, err)
	}
	defer null.Close()
	w := newWiring([]string{"crew"}, o, p, far, null, h.Results, os.Stderr)
	w.detached, w.plan.Show = h, task.ShowFrames
	return complain(os.Stderr, w.run().err)
}

// openHanded has what is known of a run that was handed over in place of what its input tells.
func (w *wiring) countDetached() error {
	if h := w.detached; h != nil {
		w.inputTasks = h.Tasks
		w.total.set(h.Tasks)
	}
	return nil
}

// overHanded has it be on record how a run that was handed over has ended. Where it could not go on, a
// later process may.
func (w *wiring) finishDetached(e core.Ending) ending {
	if e.Reason == core.Broken {
		return ending{err: e.Err}
	}
	why := map[core.Reason]string{
		core.Halted: "--halt has ended it", core.Late: "its --deadline has passed", core.BadCommand: "its command cannot be run", core.Requested: "it was cancelled",
	}[e.Reason]
	if e.Err != nil {
		why = e.Err.Error()
	}
	if e.Err != nil && e.Reason == core.Requested {
		why = "it was " + why
	}
	return ending{err: w.detached.Finish(&e.Stats, statusOf(e, w.opts.Failure), why)}
}

// handOver hands the tasks of a run over, and prints the run.
func (w *wiring) detach() (end ending) {
	if err := w.openInput(); err != nil {
		return ending{err: err}
	}
	place, err := w.place()
	if err != nil {
		return ending{err: err}
	}
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	defer signal.Stop(caught)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stored atomic.Uint64
	fill := func(add func(*task.Task) error) error {
		for {
			t, err := w.source.tasks.Next(func() uint64 { return stored.Load() + 1 })
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err == nil:
				err = add(t)
			}
			if err != nil {
				return err
			}
			stored.Store(t.ID)
		}
	}
	h := Detachment{Place: place, Load: w.load(), Orders: Orders{w.opts.Carried(time.Now()), w.source.sameCommand()}, Notice: w.screen.Notice}
	run, handed := "", make(chan error, 1)
	go func() {
		var err error
		run, err = w.far.Detach(ctx, h, fill)
		handed <- err
	}()
	select {
	case end.err = <-handed:
	case s := <-caught:
		end.signal = s.(syscall.Signal)
		cancel()
		end.err = <-handed
	}
	if n := stored.Load(); run != "" {
		end.err = printText(w.out, run+"\n")
	} else if n > 0 {
		w.screen.TryUrgent(fmt.Sprintf("not all tasks were handed over: those that were, %d, are withdrawn", n))
	}
	return end
}

// attach connects to the run whose results are to be shown.
func (w *wiring) attach() (err error) {
	o := w.opts
	if o.Do != cli.DoAttach {
		return nil
	}
	w.attached, err = w.far.Attach(Attachment{URL: o.Engine.URL, Run: o.Ctl.Run, Store: w.store, Notice: w.screen.Notice})
	if err == nil {
		w.close = append(w.close, w.attached.Close)
		w.total.set(w.attached.Tasks())
	}
	return err
}
