package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// making returns a task of a key that makes files.
func making(id uint64, key string, targets ...string) *task.Task {
	t := &task.Task{ID: id, Key: key, Argv: []string{"true"}, Makes: &task.Making{}}
	for _, path := range targets {
		t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: path})
	}
	return t
}

// keyed returns the configuration of a run that is fed, and runs the tasks of a key in order.
func keyed(workers int) Config {
	cfg := feed(workers)
	cfg.Queue.Policy = policy("keyed")
	return cfg
}

func skipped(t *task.Task) *task.Result { return &task.Result{Task: t, Outcome: task.Skipped} }

// The run goes on, and can be asked and ended, while the file system takes its time.
func TestSlowChecks(t *testing.T) {
	s := simulate(t, keyed(2), 0, endless, func(s *sim) { s.slow, s.check = true, skipped })
	s.add(making(1, "a", "a"), making(2, "b", "b"), making(3, "c", "c"), making(4, "c", "d"))
	why := task.Blocking{By: task.ByCheck, Tasks: 3}
	require.Equal(t, why, *s.look().Blocking)
	require.Equal(t, "3 tasks wait for the check of what is up to date", why.Text(s.now))
	require.Equal(t, task.Blocking{By: task.ByCheck, Tasks: 1}, *s.where(2).Blocking)
	s.sleep(time.Minute)
	require.Contains(t, s.texts(), why.Text(s.now))
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{2}})
	first := s.checks[0]
	s.checks = s.checks[1:]
	s.bring(func(c *Core) { c.Checked(first, skipped(first)) })
	require.Len(t, s.ends, 1)
	require.Empty(t, s.where(1).Outcome, "it is shown once it is recorded")
	s.ask(task.Command{Op: task.Drain})
	require.Len(t, s.checks, 2, "task 4 need not be checked")
	s.slow = false
	s.wait()
	require.Equal(t, map[uint64]task.Outcome{1: task.Skipped, 2: task.Cancelled, 3: task.NotRun, 4: task.NotRun}, s.finished)
}

// A task is checked once what comes before it of its key has ended, whatever became of those
// in between.
func TestChecksAreInOrder(t *testing.T) {
	var checked []uint64
	s := simulate(t, keyed(4), 0, endless, func(s *sim) {
		s.check = func(tk *task.Task) *task.Result { checked = append(checked, tk.ID); return nil }
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Hour, task.Exit }
	})
	cancel := func(ids ...uint64) { s.ask(task.Command{Op: task.Cancel, IDs: ids}) }
	s.add(making(1, "k", "1"), making(2, "k", "2"), making(3, "k", "3"), making(4, "k", "4"), making(5, "l", "5"))
	require.Equal(t, []uint64{1, 5}, checked)
	slot := s.where(1).Running.Slot
	require.Equal(t, task.Blocking{By: task.ByKey, Tasks: 1, Key: "k", ID: 2}, *s.where(3).Blocking)
	require.Equal(t, []task.Blocking{{By: task.ByKey, Tasks: 3, Key: "k", Slot: slot}}, s.look().Waiting)
	cancel(2)
	require.Equal(t, task.Blocking{By: task.ByKey, Tasks: 1, Key: "k", ID: 1, Slot: slot}, *s.where(3).Blocking)
	cancel(4)
	s.add(making(6, "k", "6"), after(making(7, "k", "7"), 5, 6))
	cancel(3)
	require.Equal(t, []uint64{1, 5}, checked)
	s.sleep(time.Hour)
	require.Equal(t, []uint64{1, 5, 6}, checked)
	s.sleep(time.Second)
	require.Equal(t, task.NotRun, s.finished[7])
	s.add(making(8, "k", "8"))
	require.Equal(t, task.Blocking{By: task.ByKey, Tasks: 1, Key: "k", ID: 6, Slot: s.where(6).Running.Slot}, *s.where(8).Blocking)
	s.sleep(time.Hour)
	require.Equal(t, []uint64{1, 5, 6, 8}, checked)
	s.add(making(9, "k", "9"), making(10, "k", "10"))
	s.ask(task.Command{Op: task.Drain})
	s.wait()
	require.Equal(t, []uint64{1, 5, 6, 8}, checked, "nothing is checked for nothing")
	require.Empty(t, s.core.queue.makers.last)
	require.Empty(t, s.core.queue.makers.targets)
	require.Empty(t, s.core.queue.after)
}

// A target belongs to one unfinished task.
func TestOneTaskMakesATarget(t *testing.T) {
	s := simulate(t, feed(4), 0, endless, func(s *sim) {
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Hour, task.Exit }
	})
	retry := func(id uint64) { s.ask(task.Command{Op: task.Retry, IDs: []uint64{id}}); s.sleep(time.Second) }
	broken := making(2, "", "x")
	broken.Err = fmt.Errorf("too long")
	s.add(making(1, "", "d/../x"), broken, making(3, "", "y", "x"))
	s.sleep(time.Second)
	require.Equal(t, map[uint64]task.Outcome{2: task.StartFailed, 3: task.StartFailed}, s.finished)
	s.add(making(4, "", "./x"), making(5, "", "y"))
	s.sleep(time.Second)
	require.Equal(t, task.StartFailed, s.finished[4])
	require.NotNil(t, s.where(5).Running, "task 3 has not taken y")
	retry(3)
	require.Equal(t, task.StartFailed, s.finished[6])
	s.sleep(time.Hour)
	require.Equal(t, task.Exit, s.finished[1])
	s.check = func(tk *task.Task) *task.Result {
		if tk.Makes.Known == task.KnownUnmade {
			return nil
		}
		return skipped(tk)
	}
	retry(1)
	require.NotNil(t, s.where(7).Running, "it has failed, whatever the times of files say")
	s.add(making(8, "", "x"))
	s.ask(task.Command{Op: task.Rest})
	s.wait()
	require.Equal(t, task.StartFailed, s.finished[8])
	require.Empty(t, s.core.queue.makers.targets)
}

// Results of earlier runs are no part of the share of tasks that fail.
func TestTheShareOfFailuresGrows(t *testing.T) {
	cfg := config(1)
	cfg.Halt = Halt{When: Soon, On: OnFail, N: 50, Percent: true, Tasks: 4}
	s := simulate(t, cfg, 4, func(s *sim) {
		s.change = func(tk *task.Task) { tk.Makes = making(0, "", fmt.Sprint(tk.ID)).Makes }
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }
		s.check = func(tk *task.Task) *task.Result {
			if tk.ID == 1 || tk.ID == 4 {
				return nil
			}
			tk.Makes.Done = &task.Result{Task: tk, Outcome: task.OK}
			return tk.Makes.Done
		}
		s.pause = 2 * time.Second
	})
	require.Equal(t, Halted, s.wait().Reason)
	require.Equal(t, 1, s.count(task.Exit))
}
