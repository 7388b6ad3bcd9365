package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// lasting returns an Executor whose attempts take so long, and when asked to end still
// take grace.
func lasting(took, grace time.Duration) *fake {
	return &fake{grace: grace, do: func(task.Attempt) (time.Duration, task.Outcome) { return took, task.OK }}
}

func TestDeadlineDrainsThenEndsThenKills(t *testing.T) {
	const kill = 5 * time.Second // config's
	for _, c := range []struct {
		took, grace, want time.Duration
		ok, cancelled     int
	}{
		{took: 7 * time.Second, want: 14 * time.Second, ok: 4},                                                // within KillAfter
		{took: 17 * time.Second, grace: time.Second, want: 10*time.Second + kill + time.Second, cancelled: 2}, // asked to end
		{took: time.Hour, grace: time.Hour, want: 10*time.Second + 2*kill, cancelled: 2},                      // killed
	} {
		for _, until := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				begin, cfg := time.Now(), config(2)
				if until {
					cfg.Limit.Until = begin.Add(10 * time.Second).Round(0)
				} else {
					cfg.Limit.Run = 10 * time.Second
				}
				sink := &seen{}
				never := make(chan struct{}) // the input does not end
				end, err := run(cfg, &tasks{n: 20, wait: never}, lasting(c.took, c.grace), []Sink{sink}, nil)
				require.NoError(t, err)
				close(never)
				require.Equal(t, Late, end.Reason)
				require.Equal(t, c.want, time.Since(begin), "%+v", c)
				require.Equal(t, c.ok, sink.count(task.OK))
				require.Equal(t, c.cancelled, sink.count(task.Cancelled))
				require.Equal(t, 20-c.ok-c.cancelled, sink.count(task.NotRun))
			})
		}
	}
}

func TestDeadlineOfARunThatEndsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Limit.Run = 10 * time.Second
		unread := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(unread) })
		end, err := run(cfg, &tasks{n: 4}, &fake{}, []Sink{&seen{block: unread}}, nil) // the reader is late, not the tasks
		require.NoError(t, err)
		require.Equal(t, Completed, end.Reason)
	})
}

// A task that waits for its retry when the time is over does not get it, and a pause
// does not hold the end up.
func TestDeadlineOfARunThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Limit.Run = 10 * time.Second
		cfg.Retry = Retry{Max: 1, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
		exec := &fake{do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }}
		begin, sink := time.Now(), &seen{}
		end := during(t, cfg, &tasks{n: 4}, exec, nil, sink, func(r *Run) { ask(t, r, task.Command{Op: task.Pause}) })
		require.Equal(t, Late, end.Reason)
		require.Equal(t, 4, sink.count(task.NotRun))
		require.Equal(t, 10*time.Second, time.Since(begin))
	})
}

// Run does not count the time for which the run was suspended. Until does.
func TestDeadlineOfASuspendedRun(t *testing.T) {
	for _, until := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			begin, cfg := time.Now(), config(1)
			want := 10*time.Second + time.Hour
			if cfg.Limit.Run = 10 * time.Second; until {
				cfg.Limit.Run, cfg.Limit.Until = 0, begin.Add(30*time.Minute).Round(0)
				want = time.Hour + time.Second // when it goes on
			}
			during(t, cfg, &tasks{n: 1000}, &fake{}, nil, &seen{}, func(r *Run) {
				time.Sleep(time.Second / 2)
				ask(t, r, task.Command{Op: task.Suspend})
				time.Sleep(time.Hour)
				synctest.Wait()
				ask(t, r, task.Command{Op: task.Continue})
			})
			require.WithinDuration(t, begin.Add(want), time.Now(), time.Second)
		})
	}
}

// A signal that comes first says how the run ends, and --halt does not: the tasks that
// a drain waits for are ended all the same.
func TestDeadlineOfARunThatDrains(t *testing.T) {
	for _, signal := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			begin, cfg := time.Now(), config(2)
			cfg.Limit.Run = 10 * time.Second
			cfg.Halt = Halt{When: Soon, On: OnDone, N: 1}
			exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
				return [...]time.Duration{1: time.Second, 2: time.Hour}[a.Task.ID], task.OK
			}}
			sink := &seen{}
			end := during(t, cfg, &tasks{n: 9}, exec, nil, sink, func(r *Run) {
				if signal != 0 {
					time.Sleep(2 * time.Second)
					ask(t, r, task.Command{Op: task.Drain, Signal: signal})
				}
			})
			require.Equal(t, map[int]Reason{0: Late, 2: Told}[signal], end.Reason)
			require.Equal(t, 15*time.Second, time.Since(begin))
			require.Equal(t, 1, sink.count(task.Cancelled))
		})
	}
}

// The machine's clock may be set, and the machine may sleep, so it is looked at again
// and again.
func TestUntilIsLookedForAgain(t *testing.T) {
	now := time.Now()
	c := newCore(Config{Pool: Pool{Policy: policy("fifo")}, Limit: Limit{Until: now.Add(time.Hour)}})
	c.tick(now)
	c.begins()
	require.LessOrEqual(t, c.wake().Sub(now), untilLook)
	c.tick(now.Add(59*time.Minute + 59*time.Second))
	require.LessOrEqual(t, c.wake().Sub(c.now), time.Second)
	c.tick(now.Add(time.Hour))
	c.due()
	require.Equal(t, Late, c.ending.Reason)
}

func TestJitterComesBeforeTheFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, cfg := time.Now(), config(2)
		cfg.Pool.Jitter, cfg.Pool.Delay = time.Minute, time.Second
		_, err := run(cfg, &tasks{n: 3}, &fake{}, nil, nil)
		require.NoError(t, err)
		require.Equal(t, time.Minute+2*time.Second+time.Second, time.Since(begin))
	})
	synctest.Test(t, func(t *testing.T) {
		begin, cfg, sink := time.Now(), config(2), &seen{}
		cfg.Pool.Jitter = time.Minute
		during(t, cfg, &tasks{n: 3}, &fake{}, nil, sink, func(r *Run) {
			time.Sleep(time.Second)
			b := ask(t, r, task.Command{Op: task.Look}).Snapshot.Blocking
			require.Equal(t, task.ByDelay, b.By)
			require.Equal(t, begin.Add(time.Minute), b.Until)
			ask(t, r, task.Command{Op: task.Drain, Signal: 2})
		})
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, 3, sink.count(task.NotRun))
	})
}
