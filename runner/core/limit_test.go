package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// quietAfter has attempts write all the time until a time of the clock k, and nothing later.
func quietAfter(k *task.Clock, until time.Duration) func(*sim) {
	return func(s *sim) {
		lasting(time.Hour, 0)(s)
		s.silent = func(task.Attempt) time.Duration { return max(0, k.At(s.now).Sub(epoch)-until) }
	}
}

func TestIdle(t *testing.T) {
	const idle = 10 * time.Second
	silent := task.Silent(idle)
	for _, c := range []struct {
		until, timeout, own, want time.Duration
		cause                     error
	}{
		{want: 10 * time.Second, cause: silent},
		{until: 25 * time.Second, want: 35 * time.Second, cause: silent},
		{until: 25 * time.Second, timeout: 40 * time.Second, want: 35 * time.Second, cause: silent},
		{until: 25 * time.Second, timeout: 30 * time.Second, want: 30 * time.Second, cause: task.ErrTimeout},
		{until: 25 * time.Second, timeout: 30 * time.Second, own: -1, want: 35 * time.Second, cause: silent},
		{timeout: idle, want: 10 * time.Second, cause: task.ErrTimeout},
	} {
		cfg := config(1)
		cfg.Limit.Idle, cfg.Limit.Timeout = idle, c.timeout
		s := simulate(t, cfg, 1, quietAfter(&task.Clock{}, c.until), func(s *sim) {
			s.change = func(t *task.Task) { t.Timeout = c.own }
		})
		s.wait()
		require.Equal(t, c.want, s.took(), "%+v", c)
		require.Equal(t, []error{c.cause}, s.causes)
		require.Equal(t, 1, s.count(task.Timeout))
	}
}

// A silent attempt that does not end is killed, and the next one has as much time.
func TestIdleKillsAndRetries(t *testing.T) {
	cfg := config(1)
	cfg.Limit.Idle, cfg.Retry = 10*time.Second, retries(1, time.Second)
	s := simulate(t, cfg, 1, func(s *sim) {
		lasting(time.Hour, time.Hour)(s)
		s.silent = func(a task.Attempt) time.Duration { return s.now.Sub(s.running[0].begun) }
	})
	s.wait()
	require.Equal(t, 2*(10+5)*time.Second+time.Second, s.took())
	require.Equal(t, []error{task.Silent(10 * time.Second), nil, task.Silent(10 * time.Second), nil}, s.causes)
}

// Idle does not count the time for which the run was suspended.
func TestIdleOfASuspendedRun(t *testing.T) {
	cfg, k := config(1), &task.Clock{}
	cfg.Limit.Idle = 10 * time.Second
	s := simulate(t, cfg, 1, quietAfter(k, 3*time.Second))
	s.sleep(5 * time.Second)
	k.Stop(s.now)
	s.ask(task.Command{Op: task.Suspend})
	s.sleep(30 * time.Minute)
	k.Start(s.now)
	s.ask(task.Command{Op: task.Continue})
	s.wait()
	require.Equal(t, 13*time.Second+30*time.Minute, s.took())
}

// An answer that comes when the attempt has ended, or is being ended, finds nobody.
func TestIdleTooLate(t *testing.T) {
	cfg := config(1)
	cfg.Limit.Idle, cfg.Retry = 10*time.Second, retries(1, 0)
	s := simulate(t, cfg, 1, func(s *sim) {
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }
	})
	first := task.Attempt{Task: s.running[0].Task, Number: 1}
	late := func() { s.step(func(c *Core) { c.Quiet(first, time.Minute) }) }
	s.sleep(time.Second)
	late()
	require.Empty(t, s.causes, "the second attempt runs")
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{first.Task.ID}})
	late()
	s.wait()
	require.Equal(t, []error{task.ErrCancelled}, s.causes)
}

// A task that was parked is not said to wait for what it could have.
func TestExplainParked(t *testing.T) {
	cfg := config(2)
	cfg.Queue.Rate = task.Rate{N: 1, Period: 4 * time.Second, Burst: 1}
	s := simulate(t, cfg, 3, func(s *sim) {
		s.change = func(t *task.Task) {
			if t.ID == 2 {
				t.Asked = &task.Terms{Weight: 2}
			}
		}
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return map[uint64]time.Duration{1: 5 * time.Second}[a.Task.ID] + time.Second, task.OK
		}
	})
	s.sleep(5 * time.Second)
	require.Equal(t, task.ByPlaces, s.where(2).Blocking.By)
	s.sleep(2 * time.Second)
	require.Equal(t, []uint64{1, 3}, s.begun)
	require.Equal(t, task.ByRate, s.where(2).Blocking.By)
	require.Equal(t, task.ByRate, s.look().Waiting[0].By)

	cfg = config(2)
	cfg.Queue.KeyRate = task.Rate{N: 1, Period: time.Second, Burst: 1}
	s = simulate(t, cfg, 4, lasting(10*time.Second, 0), func(s *sim) {
		s.change = func(t *task.Task) {
			if t.Key = "k"; t.ID == 4 {
				t.Key = "other"
			}
		}
	})
	s.sleep(5 * time.Second)
	require.Equal(t, []uint64{1, 4}, s.begun)
	require.Equal(t, task.BySlots, s.where(2).Blocking.By)
	require.Equal(t, task.ByKeyRate, s.where(3).Blocking.By)
}
