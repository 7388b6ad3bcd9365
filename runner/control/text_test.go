package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

func TestStatusLines(t *testing.T) {
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
		Stats:    task.Stats{Start: start, Admitted: 12, Running: 2, ByOutcome: [task.Outcomes]int64{task.OK: 2, task.Exit: 1}},
		Slots:    []task.Slot{{ID: 4}, {ID: 9}},
		Running:  []task.Running{running(4, 30*time.Second, 1), tagged},
		Waiting:  []task.Blocking{{By: task.BySlots, Tasks: 5}, {By: task.ByRetry, Tasks: 1, Until: start.Add(100 * time.Second)}},
		Blocking: &task.Blocking{By: task.BySlots, Tasks: 5},
	}
	text := func(total int64, known bool) string {
		return strings.Join(StatusOf(snap, func() (int64, bool) { return total, known }).Lines(false), "\n") + "\n"
	}
	require.Equal(t, `draining, 1m30s after the start: 3 of at least 12 tasks finished, 1 failed, 2 running
2 workers, 2.0/min
task 9: for 1m29s, since 14:03:06, on worker 9, attempt 2: web1
task 4: for 1m0s, since 14:03:35, on worker 4: run 4
5 tasks wait for a worker
1 task waits for a retry, the next in 10s
`, text(0, false))

	snap.Stats.Clock.Lost = time.Minute
	require.Contains(t, text(3000, true), ", 30s after the start: 3 of 3000 tasks finished, 1 failed, 2 running\n2 workers, 0.1/s\n")

	// A script that all share tells nothing; where there is little room, the age does.
	shared := running(5, time.Second, 1)
	shared.Task.Shell, shared.Task.Argv, shared.Task.Records = true, []string{"sh", "-c", "a\nb 'x'"}, [][]string{{"x"}}
	snap.Running = append(snap.Running, shared)
	require.Contains(t, text(0, false), "\ntask 5: for 1m29s, since 14:03:06, on worker 5: x\n")
	require.Contains(t, StatusOf(snap, nil).Lines(true), "task 5: 1m29s: x")
	snap.Running = snap.Running[:2]

	// Tasks that wait for --delay do not wait for a worker, too.
	snap.Blocking = &task.Blocking{By: task.ByDelay, Tasks: 5, Until: snap.At.Add(28 * time.Second)}
	require.Contains(t, text(0, false), "\n5 tasks wait for --delay or --jitter, the next in 28s\n1 task waits for a retry,")
	require.NotContains(t, text(0, false), "worker\n")

	// The first line says already that the run is paused.
	snap.State, snap.Blocking = task.Paused, &task.Blocking{By: task.ByPause, Tasks: 5}
	require.Equal(t, 1, strings.Count(text(0, false), "paused"))
	require.Contains(t, text(0, false), "\n5 tasks wait for a worker\n")

	// It does not say how the run goes on after --halt.
	snap.Blocking.Halt = "pause,fail=3"
	require.Contains(t, text(0, false), "\npaused (--halt pause,fail=3) until crew ctl resume\n5 tasks wait for a worker\n")

	// Other machines are named.
	snap.Slots, snap.Running[0].Host, snap.Stats.Lost = []task.Slot{{ID: 4, Host: "web1"}, {ID: 5, Host: "web1"}, {ID: 9}}, "web1", 2
	require.Contains(t, text(0, false), "\n3 workers on 1 host, 2 attempts lost,")
	require.Contains(t, text(0, false), "since 14:03:35, on worker 4 (web1): run 4\n")

	// However much there is to say, it is bounded.
	for i := range uint64(200) {
		snap.Running = append(snap.Running, running(i, 0, 1))
		snap.Waiting = append(snap.Waiting, task.Blocking{By: task.BySlots, Tasks: 1, Key: task.Bytes(fmt.Sprint(i))})
	}
	require.Equal(t, 2+mostTasks+1+mostWaits+1, strings.Count(text(0, false), "\n"))
	require.Contains(t, text(0, false), "\n… and 102 more\n")
}

func TestLines(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	crewtest.Examples(t, "testdata/lines.jsonl", func(t *testing.T, row struct {
		Hello *Hello
		Where *Where
		Reply *Reply
		Line  string
	}) {
		switch {
		case row.Hello != nil:
			require.Equal(t, row.Line, row.Hello.Line())
		case row.Where != nil:
			require.Equal(t, row.Line, row.Where.Line())
		default:
			require.Equal(t, row.Line, row.Reply.Line())
		}
	})
}
