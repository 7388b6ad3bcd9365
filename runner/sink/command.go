package sink

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"crew/runner/spool"
	"crew/runner/task"
)

// Verbose prints each command on stderr when an attempt starts (-t), as a shell
// would read it and without a prefix, as xargs and parallel do. Of a task that makes
// files it says why that is made, before its first command, or that it is up to date. As
// a sink it prints this before the output of the batch. If tasks write to stderr
// themselves that is too late; Before prints in time.
type Verbose struct {
	// WhyOnly, which may be set before Consume, means to print no commands.
	WhyOnly bool
	// Announced, which may be set before Consume, means that Before is called for all
	// attempts, so Consume tells only of tasks that have none.
	Announced bool

	screen *Screen
	line   func(t *task.Task, argv []string) string
}

// NewVerbose returns a Verbose that writes through screen.
func NewVerbose(screen *Screen) Verbose {
	return Verbose{screen: screen, line: lineFor(isTerminal(screen.err.w))}
}

// lineFor returns what makes the command lines that are shown, on a terminal or elsewhere.
func lineFor(terminal bool) func(t *task.Task, argv []string) string {
	if terminal {
		return (*task.Task).VisibleLine
	}
	return (*task.Task).CommandLine
}

// Consume prints the commands that have started and the tasks that did not have to, in
// one write. It never returns an error.
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

// Before prints the command of an attempt that is about to start. It is safe for
// concurrent use.
func (v Verbose) Before(a task.Attempt) { v.screen.Say(string(v.append(nil, a))) }

// append appends what is printed of an attempt that starts.
func (v Verbose) append(text []byte, a task.Attempt) []byte {
	if m := a.Task.Makes; m != nil && m.Why != "" && a.Number == a.Task.Attempts+1 {
		text = appendWhy(text, a.Task, m.Why)
	}
	if v.WhyOnly {
		return text
	}
	return append(append(text, v.line(a.Task, a.Argv())...), '\n')
}

// appendWhy appends a line of crew's own about a task.
func appendWhy(text []byte, t *task.Task, why string) []byte {
	return fmt.Appendf(text, "crew: task %d: %s\n", t.ID, task.Printable(why))
}

// DryRun is an executor (runner.Executor) that runs nothing: each attempt is
// OK, and its stdout is the command line that would have run. So order and tags
// are those of a real run. It is safe for concurrent use.
type DryRun struct {
	Dir      string // directory of tasks that name none; empty is crew's own
	Terminal bool   // the commands are shown on a terminal
}

// Run returns the attempt's command as its output.
func (d DryRun) Run(_ context.Context, a task.Attempt) *task.Result {
	argv, now := a.Argv(), time.Now()
	return &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Units: a.Units, Argv: argv,
		Outcome: task.OK, Start: now, End: now,
		Stdout: spool.Text(d.runnable(a, argv) + "\n"),
	}
}

// Kill does nothing: no attempt takes any time.
func (DryRun) Kill(uint64, int) {}

// Suspend does nothing.
func (DryRun) Suspend() {}

// Resume does nothing.
func (DryRun) Resume() {}

// runnable returns a task's command line for a shell, with the task's own
// directory, environment and input. It does not change the shell's directory,
// so the lines of several tasks make a script.
func (d DryRun) runnable(a task.Attempt, argv []string) string {
	t := a.Task
	stdin := t.Stdin
	if t.Protocol != task.NoProtocol {
		stdin = t.Protocol.End(append(t.Protocol.Begin(nil, t.ID), t.Stdin...), a.Number, a.Units, t.Makes)
	}
	dir := cmp.Or(t.Dir, d.Dir)
	again := t.Block != nil && t.Block.File != nil && t.Block.Name == t.Block.File.Name()
	commandLine := lineFor(d.Terminal)
	line := commandLine(t, argv)
	if dir != "" || len(t.Env) > 0 || stdin != nil || again {
		line = commandLine(&task.Task{Makes: t.Makes}, argv) // t would not quote its script
	}
	if len(t.Env) > 0 {
		env := "env "
		for _, e := range t.Env {
			name, value, _ := strings.Cut(e, "=")
			env += d.quote(name) + "=" + d.quote(value) + " "
		}
		line = env + line
	}
	if stdin != nil {
		line = d.printing(string(stdin)) + " | " + line
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	if dir != "" {
		line = "(cd " + d.quote(dir) + " && " + line + ")"
	}
	if again {
		line = d.reading(t.Block) + " | " + line
	} else if t.Block != nil {
		line += " # " + task.Printable(t.Block.Place())
	}
	return line
}

// reading returns a shell command that prints a block of a file.
func (d DryRun) reading(b *task.Block) string {
	from := fmt.Sprintf("tail -c +%d -- %s | head -c %d", b.Off+1, d.quote(b.Name), b.Len)
	if b.Head != nil {
		from = "{ " + d.printing(string(b.Head)) + "; " + from + "; }"
	}
	return from
}

// printing returns a shell command that prints s. A NUL byte cannot be part of a
// word, but an escape in the format can stand for it.
func (d DryRun) printing(s string) string {
	line, whole := strings.CutSuffix(s, "\n")
	switch {
	case strings.Contains(s, "\x00"), d.Terminal && task.IsHidden(line):
		return "printf " + task.PrintfFormat(s)
	case whole:
		return `printf '%s\n' ` + task.Quote(line)
	}
	return "printf %s " + task.Quote(s)
}

// quote returns a word of a shell.
func (d DryRun) quote(s string) string {
	if d.Terminal {
		return task.VisibleQuote(s)
	}
	return task.Quote(s)
}
