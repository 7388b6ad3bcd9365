package core

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// failing has attempts take a second, and end as exit where it says so.
func failing(fails func(task.Attempt) bool) func(*sim) {
	return func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if fails(a) {
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}
	}
}

func TestDrainEndsWaitingTasksAsNotRun(t *testing.T) {
	s := simulate(t, config(2), 1000)
	s.sleep(1500 * time.Millisecond)
	s.ask(task.Command{Op: task.Drain, Signal: 2})
	end := s.wait()
	require.Equal(t, 2, end.Signal)
	require.Equal(t, 4, s.count(task.OK), "what ran came to its end")
	require.Positive(t, s.count(task.NotRun))
	require.EqualValues(t, len(s.finished), end.Stats.Admitted)
	require.True(t, s.told(task.Draining))
}

func TestStopEndsRunningTasksWithGraceAndKillAtOnce(t *testing.T) {
	for _, c := range []struct {
		ops  []task.Op
		want time.Duration
	}{
		{[]task.Op{task.Stop}, time.Second + 3*time.Second},
		{[]task.Op{task.Drain, task.Stop, task.Kill}, 3 * time.Second},
	} {
		s := simulate(t, config(2), 5, lasting(time.Hour, 3*time.Second))
		for _, op := range c.ops {
			s.sleep(time.Second)
			s.ask(task.Command{Op: op})
		}
		s.wait()
		require.Equal(t, c.want, s.took())
		require.Equal(t, 2, s.count(task.Cancelled))
		require.Equal(t, 3, s.count(task.NotRun))
	}
}

func TestRetriesWaitWithoutAWorker(t *testing.T) {
	cfg := config(1)
	cfg.Retry = Retry{Max: 3, Delay: 10 * time.Second, MaxDelay: 15 * time.Second, Jitter: func() float64 { return 1 }}
	s := simulate(t, cfg, 3, failing(func(a task.Attempt) bool { return a.Task.ID == 1 }))
	end := s.wait()
	require.Equal(t, []uint64{1, 2, 3, 1, 1, 1}, s.begun)
	require.Equal(t, (1+10+1+15+1+15+1)*time.Second, s.took(), "10 s, then 20 s held to 15 s")
	require.EqualValues(t, 1, end.Stats.Retried, "tasks, not attempts")
	require.Equal(t, task.Exit, s.finished[1])
}

func TestDrainDuringARetryWait(t *testing.T) {
	cfg := config(1)
	cfg.Retry = retries(3, time.Hour)
	s := simulate(t, cfg, 3, failing(func(task.Attempt) bool { return true }))
	s.sleep(time.Minute)
	s.ask(task.Command{Op: task.Drain})
	s.wait()
	require.Equal(t, 3, s.count(task.NotRun))
}

func TestHalt(t *testing.T) {
	for _, c := range []struct {
		name          string
		halt          Halt
		ok, cancelled int
	}{
		{"soon after one failure", Halt{When: Soon, On: OnFail, N: 1}, 9 + 3, 0},
		{"now after one failure", Halt{When: Now, On: OnFail, N: 1}, 9, 3},
		{"soon after 20 done", Halt{When: Soon, On: OnDone, N: 20}, 22, 0},
		{"now after 8 successes", Halt{When: Now, On: OnSuccess, N: 8}, 8, 3},
		{"never", Halt{}, 90, 0},
		{"a tenth failing", Halt{When: Soon, On: OnFail, N: 10, Percent: true, Tasks: 100}, 90, 0},
		{"a fifth done", Halt{When: Soon, On: OnDone, N: 20, Percent: true, Tasks: 100}, 22, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(4)
			cfg.Halt = c.halt
			s := simulate(t, cfg, 100, func(s *sim) {
				s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
					if a.Task.ID%10 == 0 {
						return time.Second, task.Exit
					}
					return time.Second + time.Duration(a.Task.ID)*time.Millisecond, task.OK
				}
			})
			end := s.wait()
			require.Equal(t, c.cancelled, s.count(task.Cancelled))
			if c.halt.When != Never && c.ok < 90 {
				require.Equal(t, Halted, end.Reason)
				require.NotNil(t, end.Result)
				require.Positive(t, s.count(task.NotRun))
			}
			require.EqualValues(t, end.Stats.Admitted, len(s.finished))
			require.InDelta(t, c.ok, s.count(task.OK), 3)
		})
	}
}

// Tasks that are up to date are done, but neither succeed nor fail, and take no worker.
func TestSkippedTasks(t *testing.T) {
	for _, c := range []struct {
		halt Halt
		ran  int // before the run ended
	}{
		{Halt{}, 50},
		{Halt{When: Soon, On: OnDone, N: 20}, 10},
		{Halt{When: Soon, On: OnDone, N: 20, Percent: true, Tasks: 100}, 10},
		{Halt{When: Soon, On: OnSuccess, N: 20}, 20},
		{Halt{When: Soon, On: OnFail, N: 1}, 50},
	} {
		cfg := config(1)
		cfg.Halt, cfg.Queue.Buffer = c.halt, 1
		s := simulate(t, cfg, 100, func(s *sim) {
			s.change = func(tk *task.Task) {
				tk.Makes = &task.Making{Targets: []task.Target{{Path: fmt.Sprint(tk.ID)}}}
			}
			s.check = func(tk *task.Task) *task.Result {
				if tk.ID%2 == 0 {
					return nil
				}
				return &task.Result{Task: tk, Outcome: task.Skipped}
			}
		})
		end := s.wait()
		require.InDelta(t, c.ran, s.count(task.OK), 1, c.halt)
		require.InDelta(t, c.ran, s.count(task.Skipped), 2)
		require.Len(t, s.begun, s.count(task.OK))
		st := &end.Stats
		require.EqualValues(t, s.count(task.OK)+s.count(task.Skipped), st.Done())
		require.EqualValues(t, s.count(task.OK), st.Ran)
		require.Equal(t, time.Duration(s.count(task.OK))*time.Second, s.took())
		require.InDelta(t, 1, st.Rate(s.now), 0.001, "of those that ran")
		left, ok := st.ETA(10, nil, s.now)
		require.True(t, ok)
		require.InDelta(t, 10*time.Second, left, float64(time.Millisecond))
	}
}

func TestPauseResizeAndCancelWhileRunning(t *testing.T) {
	s := simulate(t, config(2), 20)
	s.sleep(500 * time.Millisecond)
	s.ask(task.Command{Op: task.Pause})
	s.sleep(10 * time.Second)
	require.Len(t, s.begun, 2, "nothing starts while paused")
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{5}})
	s.try(task.Command{Op: task.Cancel, IDs: []uint64{999}})
	s.ask(task.Command{Op: task.Resize, N: 6})
	s.ask(task.Command{Op: task.Resume})
	s.sleep(500 * time.Millisecond)
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{3}})
	s.ask(task.Command{Op: task.Grow, N: -5})
	s.ask(task.Command{Op: task.Grow, N: -5})
	end := s.wait()
	require.Equal(t, 6, s.most)
	require.Equal(t, task.Cancelled, s.finished[5])
	require.Equal(t, task.Cancelled, s.finished[3])
	require.Equal(t, 18, s.count(task.OK))
	require.Equal(t, 1, end.Stats.Slots)
}

func TestDelayBetweenStarts(t *testing.T) {
	cfg := config(10)
	cfg.Pool.Delay = 3 * time.Second
	s := simulate(t, cfg, 5)
	s.wait()
	require.Equal(t, (4*3+1)*time.Second, s.took())
}

func TestPerKeyHoldsAKeyAndNotOthers(t *testing.T) {
	cfg := config(8)
	cfg.Queue.PerKey = 2
	s := simulate(t, cfg, 40, func(s *sim) {
		s.change = func(t *task.Task) {
			t.Key = "hot"
			if t.ID > 30 {
				t.Key = fmt.Sprint(t.ID)
			}
		}
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			n := 1
			for _, r := range s.running {
				if r.Task.Key == a.Task.Key {
					n++
				}
			}
			require.LessOrEqual(t, n, 2)
			return time.Second, task.OK
		}
	})
	s.wait()
	require.Equal(t, 15*time.Second, s.took(), "the others fill the free workers meanwhile")
}

func TestBadCommandStopsTheRunAtOnce(t *testing.T) {
	cfg := config(2)
	cfg.Halt.SameCommand = true
	s := simulate(t, cfg, 1000, func(s *sim) {
		s.result = func(r *task.Result) { r.Outcome, r.Code, r.BadCommand = task.StartFailed, 127, true }
	})
	end := s.wait()
	require.Equal(t, BadCommand, end.Reason)
	require.NotNil(t, end.Result)
	require.LessOrEqual(t, s.count(task.StartFailed), 2)
}

func TestATaskThatCannotRunFailsAlone(t *testing.T) {
	s := simulate(t, config(2), 10, func(s *sim) {
		s.change = func(t *task.Task) {
			if t.ID == 4 {
				t.Err = errors.New("record is too long")
			}
		}
	})
	s.wait()
	require.Equal(t, task.StartFailed, s.finished[4])
	require.Equal(t, 9, s.count(task.OK))
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
		cfg := config(2)
		cfg.Queue.Policy, cfg.Queue.PerKey = left{cfg.Queue.Policy, t}, perKey
		cfg.Retry = retries(3, time.Hour)
		s := simulate(t, cfg, 40, func(s *sim) {
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				if a.Task.ID <= 10 {
					return time.Millisecond, task.Exit
				}
				return time.Hour / 2, task.OK
			}
		})
		s.sleep(time.Minute)
		require.EqualValues(t, 38, s.look().Aside+s.look().Queued)
		s.ask(task.Command{Op: task.Drain})
		require.Empty(t, s.look().Waiting)
		end := s.wait()
		require.EqualValues(t, 2, end.Stats.Of(task.OK))
		require.EqualValues(t, 38, end.Stats.Of(task.NotRun))
	}
}
