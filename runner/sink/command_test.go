package sink

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// heard is an executor that records what was on stderr when Run was called.
type heard struct {
	DryRun
	err  *bytes.Buffer
	then []string
}

func (h *heard) Run(_ context.Context, a task.Attempt) *task.Result {
	h.then = append(h.then, h.err.String())
	return &task.Result{Task: a.Task}
}

func TestVerbosePrintsCommandsBeforeTheyRun(t *testing.T) {
	var out, err bytes.Buffer
	exec := &heard{err: &err}
	v := NewVerbose(NewScreen(&out, &err))
	x := v.Before(exec)
	words := &task.Task{ID: 1, Argv: []string{"echo", "a b", "{%}"}}
	words.Marks = []task.Mark{{Word: 2}}
	shell := &task.Task{ID: 2, Shell: true, Argv: []string{"/bin/sh", "-c", "echo x | wc"}}
	require.Same(t, words, x.Run(t.Context(), task.Attempt{Task: words, Slot: task.Slot{ID: 3}, Number: 1}).Task)
	x.Run(t.Context(), task.Attempt{Task: shell, Slot: task.Slot{ID: 1}, Number: 1})
	require.Equal(t, []string{"echo 'a b' 3\n", "echo 'a b' 3\necho x | wc\n"}, exec.then)
	require.Empty(t, out.String())

	err.Reset()
	require.NoError(t, v.Consume([]task.Event{
		{Kind: task.Admitted, Task: words},
		{Kind: task.Started, Task: words, Slot: 3, Attempt: 1},
		{Kind: task.Started, Task: shell, Slot: 1, Attempt: 1},
	}))
	require.NoError(t, v.Consume([]task.Event{{Kind: task.Admitted, Task: words}}))
	require.NoError(t, v.Close(task.Stats{}))
	require.Equal(t, "echo 'a b' 3\necho x | wc\n", err.String())
}

func TestDryRunOutputIsTheCommand(t *testing.T) {
	tk := &task.Task{ID: 7, Argv: []string{"touch", "a b"}}
	r := DryRun{}.Run(context.Background(), task.Attempt{Task: tk, Number: 1, Slot: task.Slot{ID: 2}})
	require.Equal(t, task.OK, r.Outcome)
	require.Equal(t, 2, r.Worker)
	require.Equal(t, 1, r.Attempt)
	require.Same(t, tk, r.Task)
	require.Zero(t, r.Duration())
	for range 2 {
		var b bytes.Buffer
		n, err := r.Stdout.WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, "touch 'a b'\n", b.String())
		require.Equal(t, r.Stdout.Len(), n)
	}
	tail, err := r.Stdout.Tail(3)
	require.NoError(t, err)
	require.Equal(t, "b'\n", string(tail))
	tail, err = r.Stdout.Tail(100)
	require.NoError(t, err)
	require.Equal(t, "touch 'a b'\n", string(tail))
	r.Close()
	_, err = r.Stdout.WriteTo(io.Discard)
	require.NoError(t, err)
}
