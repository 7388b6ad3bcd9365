package wiring

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/history"
	"crew/runner/journal"
	"crew/runner/task"
)

func TestStateText(t *testing.T) {
	begun := time.Date(2026, 7, 1, 12, 0, 0, 0, time.Local)
	about := func(id uint64, command task.Bytes, r task.Result) (e history.Ended) {
		e.Facts = r.Facts()
		e.Task, e.Command = id, command
		return e
	}
	s := &journal.Summary{
		Command: journal.Command{Line: "crew x\x1b[1m", Dir: "/w"}, Begun: begun,
		Begins: 4, Before: 8, Unshown: 2, Running: 1, JournalBytes: 1 << 21, OutputBytes: 512,
		Interrupted: []task.Facts{about(7, "x 7", task.Result{Start: begun.Add(time.Minute), Worker: 2, Attempt: 2}).Facts},
		Damage:      journal.Damage{Line: 7, At: 700, Lines: 1, Before: 6, After: 50},
	}
	r := &history.Report{
		Runs:  []history.Run{{End: begun.Add(90 * time.Second)}},
		Total: history.Figures{Tasks: 25, Failed: 5, Retries: 3, Mean: 2 * time.Second, Time: 50 * time.Second, User: time.Second, System: time.Millisecond},
		Bins:  []history.Bin{{Tasks: 25}},
		Failed: history.List{List: []history.Ended{
			about(1, "x 1", task.Result{Outcome: task.Exit, Code: 3, Start: begun, End: begun.Add(time.Second), Attempt: 2}),
			about(2, "x\n2", task.Result{Outcome: task.Signal, Signal: 9, Start: begun, End: begun.Add(time.Second), Attempt: 1}),
			about(3, "x 3", task.Result{Outcome: task.StartFailed, Err: errors.New("no such thing")}),
			about(4, "x 4", task.Result{Outcome: task.Timeout, Start: begun, End: begun.Add(time.Minute)}),
		}},
		Slowest: history.List{List: []history.Ended{
			about(9, "x 9", task.Result{Outcome: task.OK, Start: begun, End: begun.Add(time.Hour)}),
			about(4, "x 4", task.Result{Outcome: task.Timeout, Start: begun, End: begun.Add(time.Minute)}),
		}},
		Keys: history.Groups{More: 3, List: []history.Group{
			{Name: "a\x1b", Figures: history.Figures{Tasks: 2, Failed: 1, Mean: 500 * time.Millisecond, Time: time.Second}},
			{Figures: history.Figures{Tasks: 1000000, Time: time.Second}},
		}},
	}
	r.Outcomes[task.OK], r.Outcomes[task.Exit], r.Outcomes[task.Signal] = 20, 4, 1
	text := func() string { return (&stateText{s: s, r: r, now: begun.Add(2 * time.Minute)}).all() }
	require.Equal(t, `crew x\x1b[1m
in /w
stopped on the way, 1m30s after the start at 2026-07-01 12:00:00: 25 tasks finished, 5 failed, 1 interrupted
20 ok, 4 exit, 1 signal, 3 retried, 4 to run again, 8 done before, 2 not shown yet
2s a task, 50s in all; CPU time 1s user, 1ms system
1 task interrupted
  task 7: since 2026-07-01 12:01:00, on worker 2, attempt 2: x 7
5 tasks failed
  task 1: exit 3 after 1s, attempt 2: x 1
  task 2: killed by SIGKILL after 1s: x\n2
  task 3: not started: no such thing: x 3
  task 4: timed out after 1m0s: x 4
  … and 1 more
slowest tasks
  task 9: ok after 1h0m0s: x 9
  task 4: timed out after 1m0s: x 4
    tasks   failed    in all    a task  key
        2        1        1s     500ms  a\x1b
  1000000        0        1s        0s  (no key)
  … and at least 3 more
journal 2.0 MiB, outputs 512 B
journal line 7 at byte 700 is damaged and left out; 6 good before it, 50 after
`, text())
	s.Process = "42"
	require.Contains(t, text(), "\nrunning as process 42, 2m0s after the start at 2026-07-01 12:00:00: 25 tasks finished, 5 failed, 1 running\n")
	require.Contains(t, text(), "\n1 task running\n  task 7: for 1m0s, since 12:01:00, on worker 2, attempt 2: x 7\n")
	s, r = &journal.Summary{Command: journal.Command{Line: "crew serve"}, Closed: true, Begun: begun, Waiting: 2}, &history.Report{}
	require.Equal(t, `crew serve
ended, 0s after the start at 2026-07-01 12:00:00: 0 tasks finished, 0 failed, 2 waiting
journal 0 B, outputs 0 B
`, text())
}
