package main

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

// fake is a run that plays events of the test and records requests.
type fake struct {
	mu   sync.Mutex
	snap task.Snapshot
	did  []task.Command
	err  error
}

func (f *fake) do(cmd task.Command) task.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cmd.Op == task.Look {
		snap := f.snap
		snap.At = time.Now()
		return task.Reply{Snapshot: &snap}
	}
	if cmd.Op == task.Explain {
		return task.Reply{Wheres: f.snap.Tasks}
	}
	f.did = append(f.did, cmd)
	return task.Reply{Err: f.err}
}

// await waits until the screen shows a text.
func await(t *testing.T, s tcell.SimulationScreen, text string) {
	t.Helper()
	screen := func() string { return strings.Join(lines(s), "\n") }
	crewtest.Until(t, func() bool { return strings.Contains(screen(), text) }, "%q:\n%s", text, crewtest.Seen(screen))
}

// TestApp tests the whole program except its terminal and the processes of the run.
func TestApp(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	start := time.Now()
	one := &task.Task{ID: 7, Argv: []string{"sleep", "1"}}
	f := &fake{snap: task.Snapshot{
		Stats: task.Stats{Admitted: 9, Start: start}, Slots: []task.Slot{{ID: 1}},
		Tasks: []task.Where{{State: "running", Of: one, EndedTask: task.EndedTask{Facts: task.Facts{Worker: 1, Attempt: 2, Start: start}}}},
	}}
	f.snap.Stats.ByOutcome[task.OK], f.snap.Stats.ByOutcome[task.Exit] = 4, 2
	server := control.Serve(control.Config{
		About: control.Hello{Name: "fake"}, Do: f.do,
		Details: control.Details{
			PIDs:  func() map[uint64]int { return map[uint64]int{7: os.Getpid()} },
			Total: func(s *task.Stats) (int64, int64, bool) { return 9, s.Done(), true },
			// not valid, because the periods have no length
			Curves: func() []series.Curves { return []series.Curves{{Points: []series.Point{{series.Ended: 1}}}} },
		},
	})
	defer server.Close()
	hello, err := control.Find(strconv.Itoa(os.Getpid()))
	require.NoError(t, err)

	s := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, s.Init())
	s.SetSize(80, 24)
	a := newApp(s)
	over := make(chan error)
	a.connect(hello)
	go func() { over <- a.loop() }()
	await(t, s, " 6 of 9 tasks finished, 2 failed, ")
	row := regexp.MustCompile(`(?m)^ +1 +7 +[\dms]+ +2 +\d+ +\d+(\.\d)?M  sleep 1$`)
	crewtest.Until(t, func() bool { return row.MatchString(strings.Join(lines(s), "\n")) }, "the row of the task")

	f.mu.Lock()
	f.err = errors.New("this run drains: nothing more starts")
	f.mu.Unlock()
	s.InjectKey(tcell.KeyRune, '+', 0)
	await(t, s, " this run drains: nothing more starts")
	f.mu.Lock()
	require.Equal(t, []task.Command{{Op: task.Grow, N: 1}}, f.did)
	f.err = nil
	f.mu.Unlock()
	s.InjectKey(tcell.KeyRune, 'r', 0)
	await(t, s, "asked to retry task 7")
	s.InjectKey(tcell.KeyRune, 'l', 0)
	await(t, s, "this run keeps no output")

	s.SetSize(50, 10)
	require.NoError(t, s.PostEvent(tcell.NewEventResize(50, 10)))
	await(t, s, "\n TASK  ")

	// Events after the last status count as well.
	now := time.Now().Add(time.Hour)
	two := &task.Task{ID: 8, Argv: []string{"sleep", "2"}}
	result := &task.Result{Task: two, Outcome: task.Exit, Code: 3, Attempt: 1, Start: now.Add(-2 * time.Second), End: now}
	require.NoError(t, server.Sink().Consume([]task.Event{
		{Kind: task.Finished, At: now, ID: 8, Task: two, Result: result, Attempt: 1},
	}))
	await(t, s, " task 8: exit 3 after 2s: sleep 2")
	final := f.snap.Stats
	final.ByOutcome[task.Exit]++
	final.ByOutcome[task.NotRun]++
	require.NoError(t, server.Sink().Close(final))
	server.Close()
	await(t, s, "the run has ended")
	await(t, s, " 7 of 9 tasks finished, 3 failed, ")
	s.InjectKey(tcell.KeyRune, 'p', 0)
	s.InjectKey(tcell.KeyRune, 'q', 0)
	require.NoError(t, <-over)
	require.Len(t, f.did, 2)
	s.Fini()
}
