package sink

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestVerbosePrintsCommands(t *testing.T) {
	var out, err bytes.Buffer
	v := NewVerbose(NewScreen(&out, &err))
	words := &task.Task{ID: 1, Argv: []string{"echo", "a b", "{%}"}}
	words.Marks = []task.Mark{{Word: 2}}
	shell := &task.Task{ID: 2, Shell: true, Argv: []string{"/bin/sh", "-c", "echo x | wc"}}
	v.Before()
	require.Empty(t, err.String())
	v.Before(task.Attempt{Task: words, Slot: task.Slot{ID: 3}, Number: 1}, task.Attempt{Task: shell, Slot: task.Slot{ID: 1}, Number: 1})
	require.Equal(t, "echo 'a b' 3\necho x | wc\n", err.String())
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
