package sink

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestVerboseSaysWhy: before the first command of a task that makes files comes why, and of
// one that is up to date that it is.
func TestVerboseSaysWhy(t *testing.T) {
	makes := &task.Making{Targets: []task.Target{{Path: "out"}}, Why: "out is older than in", Stdout: true}
	made := &task.Task{ID: 3, Attempts: 1, Argv: []string{"job"}, Makes: makes}
	started := func(tk *task.Task, attempt int) task.Event {
		return task.Event{Kind: task.Started, Task: tk, Attempt: attempt}
	}
	events := []task.Event{
		started(made, 2), started(&task.Task{ID: 4, Argv: []string{"other"}}, 1), skippedEvent(5), started(made, 3),
		ended(6, task.Result{Outcome: task.OK}),
	}
	const why, up = "crew: task 3: out is older than in\n", "crew: task 5: a b.png is up to date\n"
	for want, v := range map[string]Verbose{
		why + "job > out\nother\n" + up + "job > out\n": {},
		why + up: {WhyOnly: true},
		up:       {Announced: true},
	} {
		var err bytes.Buffer
		verbose := NewVerbose(NewScreen(&bytes.Buffer{}, &err))
		verbose.WhyOnly, verbose.Announced = v.WhyOnly, v.Announced
		require.NoError(t, verbose.Consume(events))
		require.Equal(t, want, err.String())
		if v.Announced {
			err.Reset()
			verbose.Before(task.Attempt{Task: made, Number: 2})
			require.Equal(t, why+"job > out\n", err.String())
		}
	}
}

// TestDryRunRedirects: a shell makes the file of standard output from what is shown.
func TestDryRunRedirects(t *testing.T) {
	for _, c := range []struct {
		dir  string
		task task.Task
		want string
	}{
		{"", task.Task{Argv: []string{"sh", "-c", "a | b"}, Shell: true}, "a | b > 'o 1'"},
		{"d", task.Task{Argv: []string{"sh", "-c", "a | b"}, Shell: true}, "(cd d && sh -c 'a | b' > 'o 1')"},
		{"", task.Task{Argv: []string{"x"}, Stdin: []byte("a"), Env: []string{"A=b"}, Dir: "-"}, "(cd ./- && printf %s a | env A=b x > 'o 1')"},
		{"", task.Task{Argv: []string{"x"}, Block: &task.Block{Name: "in"}}, "x > 'o 1' # " + (&task.Block{Name: "in"}).Place()},
	} {
		c.task.Makes = &task.Making{Targets: []task.Target{{Path: "o 1"}}, Stdout: true}
		require.Equal(t, c.want, DryRun{Dir: c.dir}.runnable(task.Attempt{Task: &c.task}, c.task.Argv))
	}
}
