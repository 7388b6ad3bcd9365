package sink

import (
	"context"
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// Verbose prints each command on stderr when an attempt starts (-t). Like xargs and parallel, it
// prints the command in shell syntax and without a prefix. For a task that makes files, it prints
// before the first command why the task runs, or that the files are up to date. As a sink it prints
// this before the output of the batch. That is too late if tasks write to stderr themselves; Before
// prints in time.
type Verbose struct {
	// WhyOnly means not to print commands. Set it before Consume.
	WhyOnly bool
	// Announced means that Before is called for all attempts, so that Consume prints only tasks
	// without an attempt. Set it before Consume.
	Announced bool

	screen *Screen
	line   func(t *task.Task, argv []string) string
}

// NewVerbose returns a Verbose that writes through screen.
func NewVerbose(screen *Screen) Verbose {
	return Verbose{screen: screen, line: lineFor(isTerminal(screen.err.w))}
}

// lineFor returns the function that formats command lines for a terminal or for other output.
func lineFor(terminal bool) func(t *task.Task, argv []string) string {
	if terminal {
		return (*task.Task).VisibleLine
	}
	return (*task.Task).CommandLine
}

// Consume prints the commands that have started, and the tasks that are up to date, in one write.
// It never returns an error.
func (v Verbose) Consume(events []task.Event) error {
	var text []byte
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == task.Started && !v.Announced:
			text = v.append(text, task.Attempt{Task: e.Task, Number: e.Attempt, Slot: task.Slot{ID: e.Slot, Host: e.Host}, Units: e.Units})
		case e.Kind == task.Finished && e.Task.Makes != nil && e.Attempt == 0 && e.Result.Outcome.Succeeded():
			text = appendWhy(text, e.Task, e.Task.Makes.Targets[0].Path+" is up to date")
		}
	}
	v.screen.Say(string(text))
	return nil
}

// Close does nothing.
func (Verbose) Close(task.Stats) error { return nil }

// Before prints the command of an attempt that is about to start. It is safe for concurrent use.
func (v Verbose) Before(a task.Attempt) { v.screen.Say(string(v.append(nil, a))) }

// append appends the text about an attempt that starts.
func (v Verbose) append(text []byte, a task.Attempt) []byte {
	if m := a.Task.Makes; m != nil && m.Why != "" && a.Number == a.Task.Attempts+1 {
		text = appendWhy(text, a.Task, m.Why)
	}
	if v.WhyOnly {
		return text
	}
	return append(append(text, v.line(a.Task, a.Argv())...), '\n')
}

// appendWhy appends a line about a task.
func appendWhy(text []byte, t *task.Task, why string) []byte {
	return fmt.Appendf(text, "crew: task %d: %s\n", t.ID, task.Printable(why))
}

// DryRun is a runner.Executor that runs nothing. Each attempt succeeds, and its stdout is the
// command line that would have run and the position of its block. So order and tags are those of a
// real run. It is safe for concurrent use.
type DryRun struct {
	Terminal bool // the output goes to a terminal
}

// Run returns the attempt's command line as its output.
func (d DryRun) Run(_ context.Context, a task.Attempt) *task.Result {
	r := a.End(task.OK, nil, time.Now())
	line := lineFor(d.Terminal)(a.Task, r.Argv)
	if b := a.Task.Block; b != nil {
		line += " # " + task.Printable(b.Place())
	}
	r.Stdout = spool.Text(line + "\n")
	return r
}

// Kill does nothing, because attempts take no time.
func (DryRun) Kill(uint64, int) {}

// Suspend does nothing.
func (DryRun) Suspend() {}

// Resume does nothing.
func (DryRun) Resume() {}
