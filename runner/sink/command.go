package sink

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"crew/runner/task"
)

// Verbose prints each command on stderr as an attempt of it starts (-t), as a
// shell would read it and without a prefix, as xargs and parallel do. Errors
// of stderr are ignored. As a sink it prints what has started with the rest of a
// batch, and so before what the tasks have written; where they write by
// themselves Before is ahead of that.
type Verbose struct {
	screen *Screen
	buf    []byte // the commands of a batch
}

// NewVerbose makes a Verbose that writes through screen.
func NewVerbose(screen *Screen) *Verbose { return &Verbose{screen: screen} }

// Consume prints the commands that have started, with one write. It never
// returns an error.
func (v *Verbose) Consume(events []task.Event) error {
	v.buf = v.buf[:0]
	for i := range events {
		if e := &events[i]; e.Kind == task.Started {
			v.add(e.Task, e.Slot)
		}
	}
	if len(v.buf) > 0 {
		say(v.screen, v.buf)
	}
	return nil
}

func (v *Verbose) add(t *task.Task, slot int) {
	v.buf = append(v.buf, t.CommandLine(t.ArgvOn(slot))...)
	v.buf = append(v.buf, '\n')
}

// Close does nothing.
func (v *Verbose) Close(task.Stats) error { return nil }

// Before is an executor (runner.Executor) that prints the command of an attempt
// and then has exec run it. It is safe for concurrent use.
func (v *Verbose) Before(exec executor) executor { return announced{exec, v.screen} }

type executor interface {
	Run(ctx context.Context, a task.Attempt) *task.Result
	Kill(id uint64)
	Suspend()
	Resume()
}

type announced struct {
	executor
	screen *Screen
}

func (n announced) Run(ctx context.Context, a task.Attempt) *task.Result {
	if ctx.Err() == nil {
		one := Verbose{}
		one.add(a.Task, a.Slot.ID)
		say(n.screen, one.buf)
	}
	return n.executor.Run(ctx, a)
}

// DryRun is an executor (runner.Executor) that runs nothing: each attempt is
// OK, and its stdout is the command line that would have run. So order and tags
// are those of a real run. It is safe for concurrent use.
type DryRun struct {
	Dir string // where tasks run that name no directory; empty is crew's own
}

// Run returns the command of the attempt as its output.
func (d DryRun) Run(_ context.Context, a task.Attempt) *task.Result {
	argv, now := a.Argv(), time.Now()
	return &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Argv: argv,
		Outcome: task.OK, Start: now, End: now,
		Stdout: commandText(d.runnable(a.Task, argv) + "\n"),
	}
}

// Kill does nothing: no attempt takes any time.
func (DryRun) Kill(uint64) {}

// Suspend does nothing.
func (DryRun) Suspend() {}

// Resume does nothing.
func (DryRun) Resume() {}

// runnable is a task's command line for a shell, with the directory, the
// environment and the input that are the task's own. It leaves the shell where
// it is, so that the next line finds its own directory.
func (d DryRun) runnable(t *task.Task, argv []string) string {
	dir := cmp.Or(t.Dir, d.Dir)
	if dir == "" && len(t.Env) == 0 && t.Stdin == nil {
		return t.CommandLine(argv)
	}
	var words task.Task // not t: a script has to be one word here
	line := words.CommandLine(argv)
	if len(t.Env) > 0 {
		env := "env "
		for _, e := range t.Env {
			name, value, _ := strings.Cut(e, "=")
			env += task.Quote(name) + "=" + task.Quote(value) + " "
		}
		line = env + line
	}
	if t.Stdin != nil {
		line = printing(string(t.Stdin)) + " | " + line
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	if dir != "" {
		line = "(cd " + task.Quote(dir) + " && " + line + ")"
	}
	return line
}

// printing is a command for a shell that prints s. No word can hold a NUL byte,
// but a format can name one.
func printing(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return "printf %s " + task.Quote(s)
	}
	return "printf -- " + task.Quote(strings.NewReplacer(`\`, `\\`, "%", "%%", "\x00", `\000`).Replace(s))
}

// commandText is a task.Output whose bytes are in a string.
type commandText string

func (c commandText) Len() int64 { return int64(len(c)) }

func (c commandText) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(c))
	return int64(n), err
}

func (c commandText) Tail(n int) ([]byte, error) { return []byte(c[max(0, len(c)-n):]), nil }

func (c commandText) Close() error { return nil }
