package wiring

import (
	"os"
	"slices"
	"strings"
	"time"

	"crew/runner"
	"crew/runner/control"
	"crew/runner/task"
)

const (
	controlAfter = 100 * time.Millisecond // how old a run is when it makes its socket
	countWithin  = 100 * time.Millisecond // how long a status waits for the number of tasks
	commandShown = 1000                   // bytes of the command line in crew ctl ls
)

// liveExecutor is an executor whose running tasks can be looked at.
type liveExecutor interface {
	Live(id uint64) (stdout, stderr task.Live, attempt int)
}

// recordingExecutor is an executor whose sink is to know what the journal holds.
type recordingExecutor interface{ Sink() runner.Sink }

// farExecutor is an executor with machines of its own.
type farExecutor interface{ Missing() []string }

// missing returns lines about the machines that were not there.
func (w *wiring) missing() []string {
	if x, ok := w.exec.(farExecutor); ok {
		return x.Missing()
	}
	return nil
}

// openControl makes the server that crew ctl talks to, and returns sinks with its
// own. It comes right behind the journal's, before those that can wait for a reader.
func (w *wiring) openControl(exec runner.Executor, sinks []runner.Sink) []runner.Sink {
	if w.opts.Show.DryRun || w.opts.Control.Off {
		return sinks
	}
	dir, _ := os.Getwd() // crew ctl ls can do without
	cfg := control.Config{
		About: control.Hello{Name: w.opts.Control.Name, Command: task.Bytes(commandLine(w.args)), Dir: task.Bytes(dir)},
		Do:    w.do, See: control.Sight{Total: w.tasks}, Soon: controlAfter,
	}
	if x, ok := exec.(liveExecutor); ok && w.plan.Keeps() {
		cfg.See.Live = x.Live
	}
	switch x := exec.(type) {
	case interface{ PIDs() map[uint64]int }:
		cfg.See.PIDs = x.PIDs
	case interface{ Said() map[uint64][]byte }:
		cfg.See.Said = x.Said
	}
	if w.state != nil {
		cfg.See.Ended = w.state.Past
	}
	if w.feed != nil {
		cfg.Do, cfg.Feed, cfg.Soon = w.feed.Do, w.feed.Add, 0
		cfg.About.Values, cfg.About.Most = w.opts.TakesValues(), w.opts.Serve.MaxQueued
	}
	if w.worker != nil {
		cfg.Soon = 0
	}
	w.control = control.Serve(cfg)
	w.onClose(w.control.Close)
	at := 0
	if w.state != nil {
		at = 1
	}
	return slices.Insert(sinks, at, runner.Sink(w.control.Sink()))
}

// do carries out a command, which can come before the run is made.
func (w *wiring) do(cmd task.Command) task.Reply {
	<-w.begun
	return w.made.Do(cmd)
}

// tasks returns the number of all tasks, if it is known.
func (w *wiring) tasks() (n int64, known bool) { return w.total.get(countWithin) }

// status prints at SIGQUIT what crew ctl status prints.
func (w *wiring) status(now *task.Snapshot) {
	lines := control.StatusOf(now, w.tasks).Lines()
	w.screen.Status(append(lines, `a second SIGQUIT (Ctrl-\) within 2s kills the tasks and crew`))
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
