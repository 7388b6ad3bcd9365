package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
	"crew/sched"
)

// finals records which attempts finished their task.
type finals struct {
	told
	final map[uint64]bool
}

func (f *finals) Ended(a task.Attempt, _ *task.Result, final bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.final[a.Task.ID] = final
}

// An attempt that fails while the run ends finishes its task only if that has no retry
// left. Otherwise the task waits for it in vain, like those that waited before.
func TestFailureDuringADrain(t *testing.T) {
	for name, end := range map[string]func(*core.Config) []task.Command{
		"drain": func(*core.Config) []task.Command { return []task.Command{{Op: task.Drain, Signal: 2}} },
		"a second drain": func(*core.Config) []task.Command {
			return []task.Command{{Op: task.Drain}, {Op: task.Drain, Signal: 2}}
		},
		"--deadline": func(cfg *core.Config) []task.Command { cfg.Limit.Run = 500 * time.Millisecond; return nil },
		"--halt": func(cfg *core.Config) []task.Command {
			cfg.Halt = core.Halt{When: core.Soon, On: core.OnFail, N: 1}
			return nil
		},
	} {
		for _, recorded := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(4)
				cfg.Retry = core.Retry{Max: 3, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
				commands := end(&cfg)
				exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
					return map[uint64]time.Duration{1: time.Second, 2: time.Second, 3: 100 * time.Millisecond, 4: 200 * time.Millisecond}[a.Task.ID], task.Exit
				}}
				src := &tasks{n: 4, change: func(t *task.Task) {
					if t.ID == 2 || t.ID == 4 { // only the first attempt of this run is left
						t.Attempts, t.Failures = 3, 3
					}
				}}
				sink, rec := &seen{}, &finals{final: map[uint64]bool{}}
				before := map[uint64]int{}
				sink.fail = func(e task.Event) error {
					if e.Kind == task.Finished {
						before[e.ID] = len(e.Result.Before)
					}
					return nil
				}
				var r *Run
				var err error
				if recorded {
					r, err = New(cfg, src, exec, rec, []Sink{sink})
				} else {
					r, err = New(cfg, src, exec, nil, []Sink{sink})
				}
				require.NoError(t, err)
				go func() {
					time.Sleep(500 * time.Millisecond)
					for _, cmd := range commands {
						r.Do(cmd)
					}
				}()
				stats := r.Wait().Stats
				synctest.Wait()
				require.Equal(t, map[uint64]task.Outcome{
					1: task.NotRun, 2: task.Exit, 3: task.NotRun, 4: task.Exit,
				}, sink.finished, name)
				require.Equal(t, map[uint64]int{1: 1, 2: 0, 3: 1, 4: 0}, before, name)
				require.EqualValues(t, 4, stats.Admitted)
				if recorded {
					require.Equal(t, map[uint64]bool{1: false, 2: true, 3: false, 4: true}, rec.final, name)
				}
			})
		}
	}
}

// left is a policy whose waiting items are never removed one by one.
type left struct {
	sched.Policy
	t *testing.T
}

func (p left) Remove(id uint64) bool {
	p.t.Errorf("task %d is removed", id)
	return p.Policy.Remove(id)
}

// The end of a run takes no time for each pair of a task that waits for a retry and one
// that waits for a slot, which is what it would take to search the queue for the former.
// What is left in the queues is not shown.
func TestDrainLeavesTheQueues(t *testing.T) {
	for _, perKey := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(2)
			cfg.Pool.Policy, cfg.Pool.PerKey = left{cfg.Pool.Policy, t}, perKey
			cfg.Retry = core.Retry{Max: 3, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
			exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
				if a.Task.ID <= 10 {
					return time.Millisecond, task.Exit
				}
				return time.Hour / 2, task.OK
			}}
			sink := &seen{}
			r, err := New(cfg, &tasks{n: 40}, exec, nil, []Sink{sink})
			require.NoError(t, err)
			go func() {
				time.Sleep(time.Minute)
				require.EqualValues(t, 38, r.Do(task.Command{Op: task.Look}).Snapshot.Aside+r.Do(task.Command{Op: task.Look}).Snapshot.Queued)
				r.Do(task.Command{Op: task.Drain})
				require.Empty(t, r.Do(task.Command{Op: task.Look}).Snapshot.Waiting)
			}()
			stats := r.Wait().Stats
			synctest.Wait()
			require.EqualValues(t, 2, stats.Of(task.OK))
			require.EqualValues(t, 38, stats.Of(task.NotRun))
		})
	}
}
