package runner

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// A task that an earlier run has done is finished at once, without a worker; its
// failure counts and does not halt the run.
func TestDoneTasks(t *testing.T) {
	c := newCore(Config{
		Pool: Pool{Workers: 1, Policy: policy("fifo"), Buffer: 10}, Order: Order{Keep: true, Window: 10},
		Halt: Halt{When: Now, On: OnFail, N: 2},
	})
	c.tick(time.Unix(1, 0))
	c.resize(1)
	admit := func(id uint64, done *task.Result) {
		tk := &task.Task{ID: c.number()}
		require.Equal(t, id, tk.ID)
		if tk.Done = done; done != nil {
			done.Task = tk
		}
		c.admit(tk)
	}
	admit(1, nil)
	admit(2, &task.Result{Outcome: task.Exit, Code: 1, Earlier: true})
	admit(3, &task.Result{Outcome: task.Exit, Code: 1, Before: []*task.Result{{}}})
	require.Equal(t, going, c.phase)
	admit(4, nil)
	for range 2 {
		e, ok := c.next()
		require.True(t, ok)
		require.True(t, c.decide(e, &task.Result{Task: e.task, Outcome: task.OK}))
		c.recorded(e)
	}
	c.endInput(io.EOF)
	require.True(t, c.seal())
	c.balance()

	var stats task.Stats
	var released []uint64
	started := 0
	for _, e := range c.events {
		stats.Apply(&e)
		switch e.Kind {
		case task.Started:
			started++
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				released = append(released, id)
			}
		case task.Finished:
			require.Equal(t, e.ID == 3, len(e.Result.Before) == 1, "what the journal gave is kept")
		}
	}
	require.Equal(t, []uint64{1, 2, 3, 4}, released)
	require.Equal(t, 2, started)
	require.Equal(t, int64(2), stats.Resumed())
	require.Equal(t, int64(2), stats.Failed())
	require.Zero(t, stats.Running)
}
