package wiring

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/coproc"
	"crew/runner/show/sink"
	"crew/runner/steer/control"
)

const (
	controlAfter = 100 * time.Millisecond // how long after its start a run makes its socket
	countWithin  = 100 * time.Millisecond // how long a status waits for the number of tasks
	commandShown = 1000                   // bytes of the command line that clients get
)

// missingMachines returns messages about machines that the executor could not use.
func (w *wiring) missingMachines() []string {
	if x, ok := w.exec.(interface{ Missing() []string }); ok {
		return x.Missing()
	}
	return nil
}

// openControl starts the server that crew ctl talks to.
func (w *wiring) openControl() error {
	o := w.opts
	if o.Control.Off {
		return nil
	}
	cfg := control.Config{About: w.about(), Do: w.do, Details: control.Details{Total: w.taskCount, Curves: w.curves.Curves}, Delay: w.plan.socketAfter}
	if x, ok := w.exec.(interface {
		Live(uint64) (stdout, stderr task.Live, attempt int)
	}); ok && w.plan.Keeps() {
		cfg.Live = x.Live
	}
	switch x := w.exec.(type) {
	case *coproc.Workers:
		cfg.Said = x.Said
		if cfg.Send = x.Send; o.Protocol() != task.JSONProtocol {
			cfg.Send = func(int, uint64, string) error {
				return errors.New("workers take no messages in this protocol: use --worker-protocol json")
			}
		}
	case interface {
		PIDs() map[uint64]int
		Signal([]uint64, syscall.Signal) []uint64
	}:
		cfg.PIDs, cfg.Signal = x.PIDs, x.Signal
	}
	if w.state != nil {
		cfg.Ended = w.state.EndedTasks
	}
	if w.feed != nil {
		cfg.Do, cfg.Feed = w.feed.Do, w.feed.Add
		cfg.About.Values, cfg.About.MaxQueued = o.TakesValues(), o.Serve.Feed.MaxQueued
	}
	w.control = control.Serve(cfg)
	w.onClose(w.control.Close)
	return nil
}

// about describes the run to clients.
func (w *wiring) about() control.Hello {
	dir, _ := os.Getwd() // optional for crew ctl ls
	return control.Hello{PID: os.Getpid(), Name: w.opts.Control.Name, Command: task.Bytes(w.command), Dir: task.Bytes(dir)}
}

// do carries out a command once the run is made.
func (w *wiring) do(cmd task.Command) task.Reply {
	<-w.made
	if cmd.Op == task.Resize || cmd.Op == task.Grow {
		w.resized.Store(true)
	}
	return w.run.Do(cmd)
}

// taskCount returns the number of all tasks, if it is known, and how many of them are done.
func (w *wiring) taskCount(s *task.Stats) (n, done int64, known bool) {
	t := w.input.Tally(s, countWithin)
	return t.Total, t.Done, t.Known
}

// status prints the status of the run at SIGQUIT, as crew ctl status does.
func (w *wiring) status(now *task.Snapshot) {
	lines := control.StatusOf(now, w.taskCount).Lines(sink.Columns(os.Stderr) - len("crew: "))
	w.screen.Urgent(append(lines, `a second SIGQUIT (Ctrl-\) within 2s kills the tasks and crew`)...)
}

// commandLine returns the beginning of a command line, quoted for a shell, in at most commandShown bytes.
func commandLine(args []string) string {
	var b strings.Builder
	b.WriteString("crew")
	for _, a := range args[1:] {
		if b.WriteString(" " + task.Quote(task.Shorten(a, commandShown))); b.Len() > commandShown {
			break
		}
	}
	return task.Shorten(b.String(), commandShown)
}
