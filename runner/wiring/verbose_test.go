package wiring

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/sink"
	"crew/runner/task"
)

// heard is an executor that records what was on stderr when Run was called.
type heard struct {
	sink.DryRun
	err  *bytes.Buffer
	then []string
}

func (h *heard) Run(_ context.Context, a task.Attempt) *task.Result {
	h.then = append(h.then, h.err.String())
	return &task.Result{Task: a.Task}
}

func TestCommandsArePrintedBeforeTheyRun(t *testing.T) {
	var err bytes.Buffer
	exec := &heard{err: &err}
	x := announce(exec, sink.NewVerbose(sink.NewScreen(io.Discard, &err)))
	for _, argv := range [][]string{{"echo", "a b"}, {"wc"}} {
		tk := &task.Task{ID: 1, Argv: argv}
		require.Same(t, tk, x.Run(t.Context(), task.Attempt{Task: tk, Slot: task.Slot{ID: 3}, Number: 1}).Task)
	}
	require.Equal(t, []string{"echo 'a b'\n", "echo 'a b'\nwc\n"}, exec.then)
}
