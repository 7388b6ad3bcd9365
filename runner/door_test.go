package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestNewsIsFresh: what happens is handed on soon, however busy the run is, and
// although not each event wakes the loop.
func TestNewsIsFresh(t *testing.T) {
	for _, took := range []time.Duration{50 * time.Microsecond, 3 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var oldest time.Duration
			sink := &seen{fail: func(e task.Event) error {
				oldest = max(oldest, time.Since(e.At))
				return nil
			}}
			exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
				if a.Task.ID == 1 {
					return 100 * took, task.OK // it leaves the loop something to wait for
				}
				return took, task.OK
			}}
			_, err := run(config(3), &tasks{n: 500}, exec, []Sink{sink}, nil)
			require.NoError(t, err)
			require.LessOrEqual(t, oldest, 2*lag, "tasks of %v", took)
		})
	}
}

// TestWorkersDoNotWaitForTheReader: however tasks are read ahead, each starts as
// soon as there is a worker for it.
func TestWorkersDoNotWaitForTheReader(t *testing.T) {
	for _, buffer := range []int{1, 2, 3, 64, 2000} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			cfg := config(4)
			cfg.Queue.Buffer = buffer
			_, err := run(cfg, &tasks{n: 400}, &fake{}, nil, nil)
			require.NoError(t, err)
			require.Equal(t, 100*time.Second, time.Since(start))
		})
		synctest.Test(t, func(t *testing.T) {
			start := time.Now() // each task comes when three workers are idle
			cfg := config(4)
			cfg.Queue.Buffer = buffer
			_, err := run(cfg, &tasks{n: 10, pause: time.Second}, &fake{}, nil, nil)
			require.NoError(t, err)
			require.Equal(t, 11*time.Second, time.Since(start))
		})
	}
}
