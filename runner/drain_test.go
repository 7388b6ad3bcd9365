package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
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
