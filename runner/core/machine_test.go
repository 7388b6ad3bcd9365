package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// bounded is a configuration with bounds for the load and the free memory.
func bounded(workers int, m Machine) Config {
	cfg := config(workers)
	cfg.Pool.Machine = m
	return cfg
}

// Tasks that keep a processor busy stay below the bound, and one that ends is replaced at once.
func TestLoadOfBusyTasks(t *testing.T) {
	others := 2.0
	var s *sim
	s = simulate(t, bounded(16, Machine{Load: 8}), 60, func(made *sim) {
		s = made
		s.figures = func() (float64, int64) { return others + float64(len(s.running)), 0 }
	})
	end := s.wait()
	require.EqualValues(t, 60, end.Stats.Of(task.OK))
	require.Equal(t, 6, s.most)
	require.Equal(t, 10*time.Second, s.took(), "60 seconds of work, six at a time")
	require.Contains(t, s.texts(), "54 tasks wait for the load, 8.0, to fall below the 8 of --load")
	for i := range len(s.sampled) - 1 {
		require.GreaterOrEqual(t, s.sampled[i+1].Sub(s.sampled[i]), 100*time.Millisecond)
	}
}

// Tasks that sleep come to run side by side, the faster the more room there is.
func TestLoadOfSleepers(t *testing.T) {
	s := simulate(t, bounded(100, Machine{Load: 4}), 100, func(s *sim) {
		s.figures = func() (float64, int64) { return 0, 0 }
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Minute, task.OK }
	})
	require.Equal(t, 5, s.most)
	s.sleep(2 * time.Second)
	require.Greater(t, s.most, 9)
	require.LessOrEqual(t, s.most, 5+16)
	s.wait()
	require.Equal(t, 100, s.most)
}

// Past the bound nothing starts but one task at a time, and every way to ask says why.
func TestLoadOfOthers(t *testing.T) {
	others := 20.0
	s := simulate(t, bounded(4, Machine{Load: 8}), 5, func(s *sim) {
		s.figures = func() (float64, int64) { return others, 0 }
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return 3 * time.Second, task.OK }
	})
	s.sleep(2500 * time.Millisecond)
	text := "4 tasks wait for the load, 20.0, to fall below the 8 of --load"
	require.Equal(t, []string{text}, s.texts(), "it is said once")
	require.Equal(t, text, s.look().Blocking.Text(s.now))
	require.Equal(t, "1 task waits for the load, 20.0, to fall below the 8 of --load", s.where(5).Blocking.Text(s.now))
	s.sleep(4 * time.Second)
	require.Equal(t, 1, s.most)
	require.Len(t, s.begun, 3)

	// While the run is suspended, nobody looks.
	s.ask(task.Command{Op: task.Suspend})
	n := len(s.sampled)
	s.sleep(time.Minute)
	require.Len(t, s.sampled, n)
	s.ask(task.Command{Op: task.Continue})
	others = 0
	s.sleep(2 * time.Second)
	require.Len(t, s.begun, 5)
	n = len(s.sampled)
	s.wait()
	require.Len(t, s.sampled, n, "nothing waits for the load any more")
}

// eaters runs tasks that take memory of 100, each as much as takes says, a tenth of that a second.
func eaters(t *testing.T, m Machine, n, workers int, takes func(id uint64) int64, set ...func(*sim)) *sim {
	var s *sim
	return simulate(t, bounded(workers, m), n, append(set, func(made *sim) {
		s = made
		s.figures = func() (float64, int64) {
			free := int64(100)
			for _, r := range s.running {
				free -= takes(r.Task.ID) * min(10, int64(s.now.Sub(r.begun)/time.Second)) / 10
			}
			return 0, max(0, free)
		}
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return 12 * time.Second, task.OK }
		s.grace = 100 * time.Millisecond
	})...)
}

func TestMemoryOfTasks(t *testing.T) {
	s := eaters(t, Machine{Memory: 40}, 4, 4, func(uint64) int64 { return 65 })
	s.sleep(11 * time.Second)
	require.Equal(t, 4, s.most, "what they will take does not show yet")
	s = eaters(t, Machine{Memory: 60}, 4, 4, func(uint64) int64 { return 65 })
	s.sleep(500 * time.Millisecond)
	require.Equal(t, 3, s.most, "near the bound they start one by one")
	s = eaters(t, Machine{Memory: 60}, 8, 8, func(uint64) int64 { return 300 })
	s.sleep(3 * time.Second)
	require.Equal(t, 6, s.most)
	require.Equal(t, []string{"2 tasks wait for free memory: 0 B of the 60 B of --memfree"}, s.texts())
	require.Empty(t, s.causes)
	require.EqualValues(t, 8, s.wait().Stats.Of(task.OK))
}

// The task that has started last is ended, one at a time and never the only one; it comes back,
// and no more run than were left until one of those has ended.
func TestRetryOnMemory(t *testing.T) {
	cfg := Machine{Memory: 40, End: true}
	s := eaters(t, cfg, 4, 4, func(uint64) int64 { return 65 })
	require.Len(t, s.begun, 2, "of all that is free, each may take 40")
	s.sleep(time.Second)
	require.Len(t, s.begun, 4)
	end := s.wait()
	require.EqualValues(t, 4, end.Stats.Of(task.OK))
	require.EqualValues(t, 0, end.Stats.Flaky)
	require.EqualValues(t, 0, end.Stats.Retried)
	require.Positive(t, end.Stats.Relieved)
	require.Equal(t, task.ErrMemory, s.causes[0])
	require.EqualValues(t, 4, s.begun[4], "the youngest is the first to be ended, and to come back")
	for _, e := range s.events {
		if e.Kind == task.Started {
			require.Zero(t, e.Retries)
		}
	}

	// The only one goes on, however little is left.
	s = eaters(t, cfg, 3, 1, func(uint64) int64 { return 1000 })
	require.EqualValues(t, 3, s.wait().Stats.Of(task.OK))
	require.Empty(t, s.causes)
}

// While one that was ended still runs, or figures from before its end are on their way, no other
// is ended.
func TestOneIsEndedForMemory(t *testing.T) {
	s := eaters(t, Machine{Memory: 40, End: true}, 4, 4, func(uint64) int64 { return 65 }, func(s *sim) { s.deaf = true })
	s.sleep(11 * time.Second)
	for _, cause := range s.causes[1:] {
		require.NoError(t, cause, "it is killed again and again")
	}
	require.Greater(t, len(s.causes), 2)
}

// A task that was ended for memory five times fails.
func TestEndedForMemoryTooOften(t *testing.T) {
	var s *sim
	s = simulate(t, bounded(2, Machine{Memory: 40, End: true}), 2, func(made *sim) {
		s = made
		s.figures = func() (float64, int64) {
			if len(s.running) > 1 && s.now.Sub(s.running[1].begun) > time.Second {
				return 0, 10
			}
			return 0, 90
		}
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) { return time.Hour, task.OK }
		s.grace = 700 * time.Millisecond
	})
	s.sleep(time.Minute)
	require.Equal(t, map[uint64]task.Outcome{2: task.Memory}, s.finished)
	require.Equal(t, []uint64{1, 2, 2, 2, 2, 2}, s.begun)
	require.Equal(t, []error{task.ErrMemory, nil, task.ErrMemory, nil, task.ErrMemory, nil, task.ErrMemory, nil, task.ErrMemory, nil}, s.causes)
	var last *task.Result
	for _, e := range s.events {
		if e.Kind == task.Finished {
			last = e.Result
		}
	}
	require.Len(t, last.Before, 4)
	require.Len(t, last.Failures(), 1)
	require.EqualValues(t, 1, s.wait().Stats.Failed())
}

// One that is cancelled meanwhile is cancelled.
func TestCancelledWhileEndedForMemory(t *testing.T) {
	s := eaters(t, Machine{Memory: 40, End: true}, 2, 2, func(uint64) int64 { return 65 }, func(s *sim) { s.result = func(r *task.Result) {} })
	s.grace = time.Second
	for len(s.causes) == 0 {
		s.sleep(100 * time.Millisecond)
	}
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{2}})
	s.wait()
	require.Equal(t, map[uint64]task.Outcome{1: task.OK, 2: task.Cancelled}, s.finished)
}

// Whatever the figures are and whatever is done meanwhile, every task has one outcome, and the
// run comes to its end.
func TestMachineConserves(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(28, seed))
		cfg := bounded(1+random.IntN(8), Machine{Load: float64(random.IntN(6)), Memory: int64(random.IntN(2) * 100), End: random.IntN(2) == 0})
		cfg.Pool.Window, cfg.Retry = 1+random.IntN(2), retries(random.IntN(3), time.Second)
		s := simulate(t, cfg, 60, func(s *sim) {
			s.figures = func() (float64, int64) { return float64(random.IntN(12)), random.Int64N(400) }
			s.do = func(task.Attempt) (time.Duration, task.Outcome) {
				return time.Duration(random.IntN(4000)) * time.Millisecond, []task.Outcome{task.OK, task.OK, task.Exit}[random.IntN(3)]
			}
			s.grace = time.Duration(random.IntN(1000)) * time.Millisecond
		})
		for range 20 {
			s.sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			switch random.IntN(8) {
			case 0:
				s.try(task.Command{Op: task.Resize, N: 1 + random.IntN(8)})
			case 1:
				s.try(task.Command{Op: task.Cancel, IDs: []uint64{1 + random.Uint64N(60)}, Kill: random.IntN(2) == 0})
			case 2:
				s.try(task.Command{Op: task.Pause})
			case 3:
				s.try(task.Command{Op: task.Suspend})
			case 4:
				s.try(task.Command{Op: task.Hold, IDs: []uint64{1 + random.Uint64N(60)}})
			case 5:
				if random.IntN(20) == 0 {
					s.try(task.Command{Op: task.Drain})
				}
			}
			s.try(task.Command{Op: task.Continue})
			s.try(task.Command{Op: task.Resume})
		}
		for id := range uint64(60) {
			s.try(task.Command{Op: task.Release, IDs: []uint64{id + 1}})
		}
		end := s.wait()
		require.EqualValues(t, len(s.finished), end.Stats.Admitted)
		require.Zero(t, s.core.pool.tokens.busy)
		require.True(t, cfg.Pool.Machine == Machine{End: cfg.Pool.Machine.End} || s.core.pool.machine.gauge.Alone())
	}
}
