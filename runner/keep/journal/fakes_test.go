package journal

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// shower is the sink that shows results. It collects them.
type shower struct {
	bytes.Buffer
	err, unsynced error
}

func (s *shower) Consume(events []task.Event) error {
	for _, e := range events {
		if e.Kind == task.Finished && e.Result.Stdout != nil && !e.Result.Earlier && s.err == nil {
			_, _ = e.Result.Stdout.WriteTo(s)
		}
	}
	return s.err
}

func (s *shower) Sync() error { return s.unsynced }

func (s *shower) Close(task.Stats) error { return s.err }

func read(t testing.TB, dir string) string {
	t.Helper()
	return crewtest.ReadFile(t, filepath.Join(dir, journalName))
}

// known returns the known earlier attempts of a task.
func known(t *task.Task) task.AttemptHistory {
	if t.History == nil {
		return task.AttemptHistory{}
	}
	return *t.History
}

// left returns the tasks that a queue holds at its start, by number.
func left(t testing.TB, j *Journal) map[uint64]*task.Task {
	t.Helper()
	tasks := map[uint64]*task.Task{}
	last := uint64(0)
	for tk, err := range j.QueueTasks() {
		require.NoError(t, err)
		require.Greater(t, tk.ID, last)
		last = tk.ID
		tasks[tk.ID] = tk
	}
	require.LessOrEqual(t, last, j.LastID())
	return tasks
}

// given is a source of tasks.
type given []*task.Task

func (g *given) Next(func() uint64) (*task.Task, error) {
	if len(*g) == 0 {
		return nil, io.EOF
	}
	t := (*g)[0]
	*g = (*g)[1:]
	return t, nil
}
