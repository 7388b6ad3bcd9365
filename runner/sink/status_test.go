package sink

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestStatus(t *testing.T) {
	start := time.Date(2026, 1, 2, 14, 3, 5, 0, time.Local)
	running := func(id uint64, after time.Duration, attempt int) task.Running {
		return task.Running{
			Task: &task.Task{ID: id, Argv: []string{"run", fmt.Sprint(id)}}, Slot: int(id), Attempt: attempt, Since: start.Add(after),
		}
	}
	tagged := running(9, time.Second, 2)
	tagged.Task.Tag = "web1"
	snap := &task.Snapshot{
		At: start.Add(90 * time.Second), State: task.Drains,
		Stats:    task.Stats{Start: start, Admitted: 12, ByOutcome: [task.Outcomes]int64{task.OK: 2, task.Exit: 1}},
		Running:  []task.Running{running(4, 30*time.Second, 1), tagged},
		Waiting:  []task.Blocking{{By: task.BySlots, Tasks: 5}, {By: task.ByRetry, Tasks: 1, Until: start.Add(100 * time.Second)}},
		Blocking: &task.Blocking{By: task.BySlots, Tasks: 5},
	}
	var err bytes.Buffer
	NewScreen(io.Discard, &err).Status(snap, Input{})
	require.Equal(t, `crew: draining, 1m30s after the start: 3 of at least 12 tasks finished, 1 failed, 2 running
crew: task 9: for 1m29s, since 14:03:06, on worker 9, attempt 2: web1
crew: task 4: for 1m0s, since 14:03:35, on worker 4: run 4
crew: 5 tasks wait for a worker
crew: 1 task waits for a retry, the next in 10s
crew: a second SIGQUIT (Ctrl-\) within 2s kills the tasks and crew
`, err.String())

	err.Reset()
	snap.Stats.Suspended = time.Minute
	NewScreen(io.Discard, &err).Status(snap, Input{Tasks: func(time.Duration) (int64, bool) { return 3000, true }})
	require.Contains(t, err.String(), "crew: draining, 30s after the start: 3 of 3000 tasks finished, 1 failed, 2 running\n")

	// Tasks that wait for --delay do not wait for a worker, too.
	err.Reset()
	snap.Blocking = &task.Blocking{By: task.ByDelay, Tasks: 5, Until: snap.At.Add(28 * time.Second)}
	NewScreen(io.Discard, &err).Status(snap, Input{})
	require.Contains(t, err.String(), "crew: 5 tasks wait for --delay, the next in 28s\ncrew: 1 task waits for a retry,")
	require.NotContains(t, err.String(), "worker\n")

	// The first line says already that the run is paused.
	err.Reset()
	snap.State, snap.Blocking = task.Paused, &task.Blocking{By: task.ByPause, Tasks: 5}
	NewScreen(io.Discard, &err).Status(snap, Input{})
	require.Equal(t, 1, strings.Count(err.String(), "paused"))
	require.Contains(t, err.String(), "crew: 5 tasks wait for a worker\n")

	// However much there is to say, it is bounded.
	for i := range uint64(200) {
		snap.Running = append(snap.Running, running(i, 0, 1))
		snap.Waiting = append(snap.Waiting, task.Blocking{By: task.BySlots, Tasks: 1, Key: fmt.Sprint(i)})
	}
	err.Reset()
	NewScreen(io.Discard, &err).Status(snap, Input{})
	require.Equal(t, 1+statusTasks+1+statusWaits+1+1, strings.Count(err.String(), "\n"))
	require.Contains(t, err.String(), "crew: … and 102 more\n")
}

// TestStatusDoesNotWait has a reader of stdout that stands still.
func TestStatusDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	var err bytes.Buffer
	s := NewScreen(w, &err)
	stuck, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Print(func(out, _ io.Writer) error {
			close(stuck)
			_, e := out.Write([]byte("x"))
			return e
		})
	}()
	<-stuck
	s.Status(&task.Snapshot{}, Input{})
	require.Contains(t, err.String(), "crew: running")
	r.Close()
	<-done
}
