package sink

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"crew/runner/task"
)

// Verbose is an executor (runner.Executor) that prints each command on stderr
// before another executor runs it (-t), as a shell would read it and without a
// prefix, as xargs and parallel do. Errors of stderr are ignored. It is safe for
// concurrent use.
type Verbose struct {
	screen *Screen
	exec   executor
}

type executor interface {
	Run(ctx context.Context, a task.Attempt) *task.Result
}

// NewVerbose makes a Verbose that prints through screen and runs with exec.
func NewVerbose(screen *Screen, exec executor) *Verbose { return &Verbose{screen, exec} }

// Run prints and runs.
func (v *Verbose) Run(ctx context.Context, a task.Attempt) *task.Result {
	say(v.screen, []byte(a.Task.CommandLine(a.Argv())+"\n"))
	return v.exec.Run(ctx, a)
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
		Task: a.Task, Attempt: a.Number, Worker: a.Worker, Argv: argv,
		Outcome: task.OK, Start: now, End: now,
		Stdout: commandText(d.runnable(a.Task, argv) + "\n"),
	}
}

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
	return "printf " + task.Quote(strings.NewReplacer(`\`, `\\`, "%", "%%", "\x00", `\000`).Replace(s))
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
