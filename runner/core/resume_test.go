package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// A task that an earlier run has done is finished at once, without a worker; its
// failure counts and does not halt the run.
func TestDoneTasks(t *testing.T) {
	cfg := config(1)
	cfg.Order = Order{Keep: true, Window: 10}
	cfg.Halt = Halt{When: Now, On: OnFail, N: 2}
	s := simulate(t, cfg, 4, func(s *sim) {
		s.change = func(tk *task.Task) {
			switch tk.ID {
			case 2:
				tk.Done = &task.Result{Task: tk, Outcome: task.Exit, Code: 1, Earlier: true}
			case 3:
				tk.Done = &task.Result{Task: tk, Outcome: task.Exit, Code: 1, Before: []*task.Result{{}}}
			}
		}
	})
	end := s.wait()
	require.Equal(t, Completed, end.Reason)

	var stats task.Stats
	var released []uint64
	for _, e := range s.events {
		stats.Apply(&e)
		switch e.Kind {
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				released = append(released, id)
			}
		case task.Finished:
			require.Equal(t, e.ID == 3, len(e.Result.Before) == 1, "what the journal gave is kept")
		}
	}
	require.Equal(t, []uint64{1, 2, 3, 4}, released)
	require.Equal(t, []uint64{1, 4}, s.begun)
	require.Equal(t, int64(2), stats.Resumed())
	require.Equal(t, int64(2), stats.Failed())
	require.Zero(t, stats.Running)
	require.Equal(t, stats, end.Stats)
}
