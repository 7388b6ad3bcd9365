package runner

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
)

// A block is freed once, when its task is finished: behind its last attempt, even if the
// result waits for its turn, or instead of one.
func TestBlocksAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed [41]atomic.Int64 // by task
		src := &tasks{n: 40, change: func(tk *task.Task) {
			tk.Block = &task.Block{Text: []byte("x"), Free: func() { freed[tk.ID].Add(1) }}
			if tk.ID == 5 {
				tk.Err = io.ErrUnexpectedEOF
			}
		}}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			if freed[a.Task.ID].Load() > 0 {
				t.Errorf("attempt %d of task %d has no block", a.Number, a.Task.ID)
			}
			switch {
			case a.Task.ID == 1:
				return 30 * time.Second, task.OK
			case a.Task.ID%3 == 0:
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}}
		cfg := config(2)
		cfg.Queue.Buffer = 2
		cfg.Order, cfg.Feed.Remember = core.Order{Keep: true, Window: 100}, true
		cfg.Retry = core.Retry{Max: 1, Delay: time.Second, MaxDelay: time.Second, Jitter: func() float64 { return 1 }}
		r, err := New(cfg, src, exec, nil, []Sink{&seen{}})
		require.NoError(t, err)
		go func() {
			time.Sleep(20 * time.Second)
			if freed[2].Load() != 1 {
				t.Error("a block waits for the release of its task")
			}
			err = r.Do(task.Command{Op: task.Retry, IDs: []uint64{3}}).Err
			r.Do(task.Command{Op: task.Drain})
		}()
		stats := r.Wait().Stats
		require.ErrorContains(t, err, "its block of the stream is gone")
		require.EqualValues(t, 1, stats.Of(task.StartFailed))
		require.Positive(t, stats.Of(task.Exit))
		require.Positive(t, stats.Of(task.NotRun))
		for id := range stats.Admitted {
			require.EqualValues(t, 1, freed[id+1].Load(), "task %d", id+1)
		}
	})
}

// Few large tasks are read ahead, and many small ones.
func TestReadAheadGoesByBytes(t *testing.T) {
	for size, want := range map[int]int64{1 << 20: 2 + 3, 1: 2 + 64} {
		synctest.Test(t, func(t *testing.T) {
			src := &tasks{n: 1000, change: func(tk *task.Task) { tk.Block = &task.Block{Text: make([]byte, size)} }}
			cfg := config(2)
			cfg.Queue.Buffer, cfg.Queue.Bytes, cfg.Queue.Few = 64, 3<<20, 3
			r, err := New(cfg, src, &fake{}, nil, []Sink{&seen{}})
			require.NoError(t, err)
			go func() {
				time.Sleep(time.Second / 2)
				if got := src.given.Load(); got != want {
					t.Errorf("%d tasks of %d bytes were read, not %d", got, size, want)
				}
				r.Do(task.Command{Op: task.Drain})
			}()
			r.Wait()
		})
	}
}
