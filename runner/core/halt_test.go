package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

const pausedText = "paused (--halt pause,fail=2) until crew ctl resume"

// pausing returns the configuration of a run that n failures pause.
func pausing(workers, n int) Config {
	cfg := config(workers)
	cfg.Halt = Halt{When: Pause, On: OnFail, N: n}
	return cfg
}

// said returns the notices of the run.
func (s *sim) said() (list []string) {
	for _, e := range s.events {
		if e.Kind == task.Notice {
			list = append(list, e.Text)
		}
	}
	return list
}

func TestHaltPausesTheRun(t *testing.T) {
	s := simulate(t, pausing(3, 2), 20, failing(func(a task.Attempt) bool { return a.Task.ID <= 9 }), func(s *sim) {
		do := s.do
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			took, o := do(a)
			return took + time.Duration(a.Slot.ID)*100*time.Millisecond, o
		}
	})
	s.sleep(time.Hour)
	require.Len(t, s.begun, 4, "the first failure had another task start, and the second none")
	require.Equal(t, 4, s.count(task.Exit), "what ran came to its end")
	require.Equal(t, []string{pausedText}, s.said())
	now := s.look()
	require.Equal(t, task.Paused, now.State)
	require.Equal(t, pausedText, now.Blocking.Text(s.now))
	require.Equal(t, pausedText, s.where(5).Blocking.Text(s.now))
	require.EqualValues(t, 20, now.Stats.Admitted, "reading goes on")
	require.False(t, now.Stats.Draining)

	// What failed while it was paused does not count any more.
	s.ask(task.Command{Op: task.Resume})
	require.Equal(t, task.Going, s.look().State)
	s.sleep(time.Hour)
	require.Len(t, s.begun, 8)
	require.Equal(t, []string{pausedText, pausedText}, s.said())

	s.ask(task.Command{Op: task.Resume})
	end := s.wait()
	require.Equal(t, Completed, end.Reason)
	require.Nil(t, end.Result)
	require.EqualValues(t, 9, end.Stats.Failed())
	require.EqualValues(t, 11, end.Stats.Of(task.OK))
	require.Len(t, s.said(), 2, "one failure was left")
}

func TestHaltPausesByAnyKindOfResult(t *testing.T) {
	for _, c := range []struct {
		halt Halt
		said string
		runs []int // how many tasks have begun at each pause
	}{
		{Halt{On: OnFail, N: 3}, "fail=3", []int{30, 60, 90}},
		{Halt{On: OnSuccess, N: 30}, "success=30", []int{33, 66, 99}},
		{Halt{On: OnDone, N: 40}, "done=40", []int{40, 80}},
		{Halt{On: OnDone, N: 25, Percent: true, Tasks: 100}, "done=25%", []int{25, 50, 75}},
		{Halt{On: OnFail, N: 4, Percent: true, Tasks: 100}, "fail=4%", []int{40, 80}},
		{Halt{On: OnFail, N: 100}, "", nil},
	} {
		cfg := config(1)
		cfg.Halt = c.halt
		cfg.Halt.When = Pause
		s := simulate(t, cfg, 100, failing(func(a task.Attempt) bool { return a.Task.ID%10 == 0 }))
		for _, n := range c.runs {
			s.sleep(time.Hour)
			require.Equal(t, task.Paused, s.look().State, cfg.Halt)
			require.Len(t, s.begun, n, cfg.Halt)
			require.Contains(t, s.look().Blocking.Text(s.now), c.said)
			s.ask(task.Command{Op: task.Resume})
		}
		require.Equal(t, Completed, s.wait().Reason)
		require.Len(t, s.said(), len(c.runs), cfg.Halt)
	}
}

// A pause by hand changes neither what has been counted nor why the run is paused.
func TestHaltAndAPauseByHand(t *testing.T) {
	s := simulate(t, pausing(1, 2), 20, failing(func(a task.Attempt) bool { return a.Task.ID%3 > 0 }))
	s.sleep(500 * time.Millisecond)
	s.ask(task.Command{Op: task.Pause})
	s.sleep(time.Hour)
	require.Equal(t, "paused", s.look().Blocking.Text(s.now))
	s.ask(task.Command{Op: task.Resume})
	s.ask(task.Command{Op: task.Resume})
	s.sleep(time.Hour)
	require.Len(t, s.begun, 2, "one failure before the pause by hand, and one after")
	s.ask(task.Command{Op: task.Pause})
	require.Equal(t, pausedText, s.look().Blocking.Text(s.now))
	require.Len(t, s.said(), 1)
	s.ask(task.Command{Op: task.Resume})
	require.Equal(t, task.Going, s.look().State)

	// The results that pause the run may come while somebody has done so.
	s.sleep(2500 * time.Millisecond)
	s.ask(task.Command{Op: task.Pause})
	s.sleep(time.Hour)
	require.Len(t, s.begun, 5)
	require.Equal(t, pausedText, s.look().Blocking.Text(s.now))
	require.Len(t, s.said(), 2)
	s.ask(task.Command{Op: task.Resume})
	s.ask(task.Command{Op: task.Drain})
	s.wait()
}

// A run that has nothing left to start ends.
func TestHaltHasNothingToPause(t *testing.T) {
	s := simulate(t, pausing(2, 1), 2, failing(func(task.Attempt) bool { return true }))
	end := s.wait()
	require.Equal(t, time.Second, s.took())
	require.Equal(t, Completed, end.Reason)
	require.Empty(t, s.said())

	// A retry is something to start, as soon as it is known.
	cfg := pausing(2, 1)
	cfg.Retry = retries(1, time.Second)
	s = simulate(t, cfg, 2, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Duration(a.Task.ID) * 10 * time.Second, task.Exit
		}
		s.change = func(t *task.Task) {
			if t.ID == 1 {
				t.Attempts, t.Failures = 1, 1
			}
		}
	})
	s.sleep(15 * time.Second)
	require.Equal(t, task.Paused, s.look().State)
	require.Empty(t, s.said())
	s.sleep(time.Hour)
	require.Equal(t, []string{"paused (--halt pause,fail=1) until crew ctl resume"}, s.said())
	require.Equal(t, []uint64{1, 2}, s.begun)
	s.ask(task.Command{Op: task.Resume})
	s.wait()
	require.Equal(t, []uint64{1, 2, 2}, s.begun)
}

// A run that a halt has paused ends as any paused run does.
func TestHaltPausesAndTheRunEnds(t *testing.T) {
	for _, c := range []struct {
		op         task.Op
		waits      bool // for a resume
		ok, notRun int
		reason     Reason
	}{
		{task.Drain, false, 0, 18, Told},
		{task.Stop, false, 0, 18, Told},
		{task.Rest, true, 18, 0, Completed},
	} {
		s := simulate(t, pausing(1, 2), 20, failing(func(a task.Attempt) bool { return a.Task.ID < 3 }))
		s.sleep(time.Hour)
		s.ask(task.Command{Op: c.op})
		s.sleep(time.Hour)
		if c.waits {
			require.Equal(t, task.Paused, s.look().State)
			require.Len(t, s.begun, 2)
			s.ask(task.Command{Op: task.Resume})
		}
		end := s.wait()
		require.Equal(t, c.reason, end.Reason)
		require.Equal(t, c.ok, s.count(task.OK))
		require.Equal(t, c.notRun, s.count(task.NotRun))
		require.Len(t, s.said(), 1)
	}

	// It also pauses one that drains with --rest, and none that drains.
	cfg := pausing(1, 2)
	cfg.Queue.Buffer = 5
	s := simulate(t, cfg, 20, failing(func(task.Attempt) bool { return true }))
	s.ask(task.Command{Op: task.Rest})
	s.sleep(time.Hour)
	require.Equal(t, task.Paused, s.look().State)
	require.Len(t, s.begun, 2)
	s.ask(task.Command{Op: task.Resume})
	s.sleep(1500 * time.Millisecond)
	s.ask(task.Command{Op: task.Drain})
	require.Equal(t, Told, s.wait().Reason)
	require.Len(t, s.begun, 4)
	require.Contains(t, s.said(), pausedText)
	require.Len(t, s.said(), 2, "that it is paused, and that nothing more is read")
}

func TestHaltPausesAFedRun(t *testing.T) {
	cfg := feed(1)
	cfg.Halt = Halt{When: Pause, On: OnFail, N: 2}
	s := simulate(t, cfg, 0, endless, failing(func(task.Attempt) bool { return true }))
	s.add(numbered(1, 2)...)
	s.sleep(time.Hour)
	require.Equal(t, []string{pausedText}, s.said(), "more may come")
	s.add(numbered(3, 4, 5)...)
	s.sleep(time.Hour)
	require.Len(t, s.begun, 2)
	s.ask(task.Command{Op: task.Resume})
	s.sleep(time.Hour)
	require.Len(t, s.begun, 4)
	s.ask(task.Command{Op: task.Rest})
	s.ask(task.Command{Op: task.Resume})
	require.Equal(t, Completed, s.wait().Reason)
	require.Len(t, s.begun, 5)
}
