package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// lasting has attempts take so long, and when asked to end still take grace.
func lasting(took, grace time.Duration) func(*sim) {
	return func(s *sim) {
		s.do, s.grace = func(task.Attempt) (time.Duration, task.Outcome) { return took, task.OK }, grace
	}
}

// deaf has attempts not end before their time, whatever they are told.
func deaf(s *sim) { s.deaf = true }

// endless has the input not end.
func endless(s *sim) { s.open = true }

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
			cfg := config(2)
			if until {
				cfg.Limit.Until = epoch.Add(10 * time.Second)
			} else {
				cfg.Limit.Run = 10 * time.Second
			}
			s := simulate(t, cfg, 20, lasting(c.took, c.grace), endless)
			require.Equal(t, Late, s.wait().Reason)
			require.Equal(t, c.want, s.took(), "%+v", c)
			require.Equal(t, c.ok, s.count(task.OK))
			require.Equal(t, c.cancelled, s.count(task.Cancelled))
			require.Equal(t, 20-c.ok-c.cancelled, s.count(task.NotRun))
		}
	}
}

// A task that waits for its retry when the time is over does not get it, and a pause
// does not hold the end up.
func TestDeadlineOfARunThatWaits(t *testing.T) {
	cfg := config(2)
	cfg.Limit.Run, cfg.Retry = 10*time.Second, retries(1, time.Hour)
	s := simulate(t, cfg, 4, func(s *sim) {
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }
	})
	s.ask(task.Command{Op: task.Pause})
	require.Equal(t, Late, s.wait().Reason)
	require.Equal(t, 4, s.count(task.NotRun))
	require.Equal(t, 10*time.Second, s.took())
}

// Run does not count the time for which the run was suspended. Until does.
func TestDeadlineOfASuspendedRun(t *testing.T) {
	for _, until := range []bool{false, true} {
		cfg, want := config(1), 10*time.Second+time.Hour
		if cfg.Limit.Run = 10 * time.Second; until {
			cfg.Limit.Run, cfg.Limit.Until = 0, epoch.Add(30*time.Minute)
			want = time.Hour + time.Second // when it goes on
		}
		s := simulate(t, cfg, 1000)
		s.sleep(time.Second / 2)
		s.ask(task.Command{Op: task.Suspend})
		s.sleep(time.Hour)
		s.ask(task.Command{Op: task.Continue})
		s.wait()
		require.InDelta(t, want, s.took(), float64(time.Second))
	}
}

// A signal that comes first says how the run ends, and --halt does not: the tasks that
// a drain waits for are ended all the same.
func TestDeadlineOfARunThatDrains(t *testing.T) {
	for _, signal := range []int{0, 2} {
		cfg := config(2)
		cfg.Limit.Run = 10 * time.Second
		cfg.Halt = Halt{When: Soon, On: OnDone, N: 1}
		s := simulate(t, cfg, 9, func(s *sim) {
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				return [...]time.Duration{1: time.Second, 2: time.Hour}[a.Task.ID], task.OK
			}
		})
		if signal != 0 {
			s.sleep(2 * time.Second)
			s.ask(task.Command{Op: task.Drain, Signal: signal})
		}
		require.Equal(t, map[int]Reason{0: Late, 2: Told}[signal], s.wait().Reason)
		require.Equal(t, 15*time.Second, s.took())
		require.Equal(t, 1, s.count(task.Cancelled))
	}
}

// The machine's clock may be set, and the machine may sleep, so it is looked at again
// and again.
func TestUntilIsLookedForAgain(t *testing.T) {
	cfg := config(1)
	cfg.Limit.Until = epoch.Add(time.Hour)
	c := New(cfg, epoch, false)
	wake := func(after time.Duration) time.Duration {
		now := epoch.Add(after)
		return c.Step(now, func(*Core) {}).Wake.Sub(now)
	}
	require.LessOrEqual(t, wake(0), clockLook)
	require.LessOrEqual(t, wake(59*time.Minute+59*time.Second), time.Second)
	wake(time.Hour)
	require.Equal(t, Late, c.Ending().Reason)
}

func TestJitterComesBeforeTheFirstStart(t *testing.T) {
	cfg := config(2)
	cfg.Pool.Jitter, cfg.Pool.Delay = time.Minute, time.Second
	s := simulate(t, cfg, 3)
	s.wait()
	require.Equal(t, time.Minute+2*time.Second+time.Second, s.took())

	cfg = config(2)
	cfg.Pool.Jitter = time.Minute
	s = simulate(t, cfg, 3)
	s.sleep(time.Second)
	b := s.look().Blocking
	require.Equal(t, task.ByDelay, b.By)
	require.Equal(t, epoch.Add(time.Minute), b.Until)
	s.ask(task.Command{Op: task.Drain, Signal: 2})
	s.wait()
	require.Equal(t, time.Second, s.took())
	require.Equal(t, 3, s.count(task.NotRun))
}
