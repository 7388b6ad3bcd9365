package wiring

import (
	"os"
	"strings"
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

const (
	controlAfter = 100 * time.Millisecond // how old a run is when it makes its socket
	countWithin  = 100 * time.Millisecond // how long a status waits for the number of tasks
	commandShown = 1000                   // bytes of the command line in crew ctl ls
)

// missing returns lines about the machines of the executor that were not there.
func (w *wiring) missing() []string {
	if x, ok := w.exec.(interface{ Missing() []string }); ok {
		return x.Missing()
	}
	return nil
}

// openControl makes the server that crew ctl talks to.
func (w *wiring) openControl() error {
	if w.opts.Show.DryRun || w.opts.Control.Off {
		return nil
	}
	cfg := control.Config{About: w.about(), Do: w.do, See: control.Sight{Total: w.tasks}, Soon: controlAfter}
	if x, ok := w.exec.(interface {
		Live(uint64) (stdout, stderr task.Live, attempt int)
	}); ok && w.plan.Keeps() {
		cfg.See.Live = x.Live
	}
	switch x := w.exec.(type) {
	case interface{ Said() map[uint64][]byte }:
		cfg.See.Said = x.Said
	case interface{ PIDs() map[uint64]int }:
		cfg.See.PIDs = x.PIDs
	}
	if w.state != nil {
		cfg.See.Ended, cfg.See.Latest = w.state.EndedTasks, w.state.LatestEnded
	}
	if w.feed != nil {
		cfg.Do, cfg.Feed, cfg.Soon = w.feed.Do, w.feed.Add, 0
		cfg.About.Values, cfg.About.Most = w.opts.TakesValues(), w.opts.Serve.Feed.MaxQueued
	}
	if w.worker != nil || w.opts.Failure.Halt.When == core.Pause {
		cfg.Soon = 0
	}
	if w.detached != nil { // it is its submitter's, not this user's
		cfg.Soon = control.Never
	}
	w.control = control.Serve(cfg)
	w.onClose(w.control.Close)
	return nil
}

// about describes the run to those who see it.
func (w *wiring) about() control.Hello {
	dir, _ := os.Getwd() // crew ctl ls can do without
	h := control.Hello{PID: os.Getpid(), Name: w.opts.Control.Name, Command: task.Bytes(commandLine(w.args)), Dir: task.Bytes(dir)}
	if w.detached != nil {
		h.Command = task.Bytes(w.detached.Command)
	}
	return h
}

// do carries out a command, which can come before the run is made.
func (w *wiring) do(cmd task.Command) task.Reply {
	<-w.begun
	if w.detached != nil {
		return w.detached.Do(cmd, w.made.Do)
	}
	return w.made.Do(cmd)
}

// tasks returns the number of all tasks, if it is known.
func (w *wiring) tasks() (n int64, known bool) { return w.total.get(countWithin) }

// status prints at SIGQUIT what crew ctl status prints.
func (w *wiring) status(now *task.Snapshot) {
	lines := control.StatusOf(now, w.tasks).Lines(false)
	w.screen.Urgent(append(lines, `a second SIGQUIT (Ctrl-\) within 2s kills the tasks and crew`)...)
}

// commandLine returns the beginning of a command line as it was typed.
func commandLine(args []string) string {
	var b strings.Builder
	b.WriteString("crew")
	for _, a := range args[1:] {
		if b.WriteString(" " + task.Quote(task.Shorten(a, commandShown))); b.Len() > commandShown {
			break
		}
	}
	return b.String()
}
