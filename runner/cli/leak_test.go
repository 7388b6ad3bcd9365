package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/crewtest"
	"crew/runner/proc"
	"crew/runner/sink"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/sched"
)

// repeated is a Source of n tasks of all sorts.
type repeated struct{ n, given int }

func (s *repeated) Next(number func() uint64) (*task.Task, error) {
	if s.given == s.n {
		return nil, io.EOF
	}
	s.given++
	t := &task.Task{ID: number(), Cost: 1, Argv: []string{"echo", fmt.Sprint(s.given)}}
	switch s.given % 50 {
	case 10:
		t.Argv = []string{"false"}
	case 20:
		t.Argv, t.Stdin = []string{"wc", "-c"}, []byte("some input")
	case 30:
		t.Argv = []string{"no-such-command"}
	case 40:
		t.Argv, t.Timeout = []string{"sleep", "60"}, 60*time.Millisecond
	}
	return t, nil
}

// TestManyTasksLeaveNothing: goroutines and descriptors after many tasks are as
// many as after few. CREW_SOAK makes it a hundred thousand.
func TestManyTasksLeaveNothing(t *testing.T) {
	many := 500
	if crewtest.Soaking() {
		many = 100_000
	}
	store := spool.New(1<<20, t.TempDir())
	exec, err := proc.New(proc.Config{Env: os.Environ(), Store: store})
	require.NoError(t, err)
	run := func(n int) (goroutines, files int) {
		policy, err := sched.New(sched.Config{Name: "fifo"})
		require.NoError(t, err)
		out := sink.NewStdout(sink.NewScreen(io.Discard, io.Discard), sink.StdoutConfig{Plan: task.Plan{Order: true}, Store: store})
		r, err := runner.New(runner.Config{
			Pool:  runner.Pool{Workers: 8, Policy: policy, Buffer: 64},
			Order: runner.Order{Keep: true, Window: 1 << 10},
			Limit: runner.Limit{KillAfter: time.Second},
			Retry: runner.Retry{Max: 1, Jitter: func() float64 { return 0 }},
		}, &repeated{n: n}, exec, nil, []runner.Sink{out})
		require.NoError(t, err)
		end := r.Wait()
		require.NoError(t, end.Err)
		require.EqualValues(t, n, end.Stats.Finished())
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return runtime.NumGoroutine(), len(entries)
	}
	goroutines, files := run(100)
	_, after := run(many)
	require.Equal(t, files, after)
	crewtest.Until(t, func() bool { return runtime.NumGoroutine() <= goroutines }, "goroutines to end")
	require.NoError(t, exec.Close())
	require.NoError(t, store.Close())
}
