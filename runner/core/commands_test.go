package core

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestSlotsOfOtherHostsJoinAndLeave(t *testing.T) {
	peak := map[int]int{} // by slot
	s := simulate(t, config(1), 100, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			n := 1
			for _, r := range s.running {
				if r.Slot.ID == a.Slot.ID {
					n++
				}
			}
			peak[a.Slot.ID] = max(peak[a.Slot.ID], n)
			return time.Second, task.OK
		}
	})
	far := task.Slot{Host: "far", Cap: 3}
	require.Equal(t, []int{2}, s.ask(task.Command{Op: task.Join, Slot: far}).Slots)
	require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 2, Host: "far", Cap: 3}}, s.look().Slots)
	require.Len(t, s.look().Running, 4, "it takes tasks at once, as many as it has room for")
	s.sleep(5500 * time.Millisecond)
	s.ask(task.Command{Op: task.Leave, N: 2})
	require.Len(t, s.look().Running, 4, "what runs there may finish")
	s.ask(task.Command{Op: task.Resize, N: 2})
	require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 3, Cap: 1}}, s.look().Slots,
		"a number is not given to another host while something runs under it")
	s.ask(task.Command{Op: task.Join, Slot: task.Slot{Host: "far"}})
	s.ask(task.Command{Op: task.Grow, N: -9})
	require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 2, Host: "far", Cap: 1}}, s.look().Slots,
		"one worker of this machine's own stays, and others are not counted")
	for _, none := range []int{-1, 0, 3, 99} {
		require.ErrorContains(t, s.try(task.Command{Op: task.Leave, N: none}).Err, "there is no worker")
	}
	end := s.wait()
	require.EqualValues(t, 100, end.Stats.Of(task.OK))
	require.Equal(t, 2, end.Stats.Slots)
	require.Equal(t, 3, peak[2])
	require.Equal(t, 1, peak[1])
}

// TestALeavingHostMovesNoOtherKeys: keys stay with their slots when another host
// comes and goes, and tasks of a key stay in order.
func TestALeavingHostMovesNoOtherKeys(t *testing.T) {
	cfg := config(4)
	cfg.Queue.Policy, cfg.Queue.Buffer = policy("keyed"), 1000
	where := map[string][]int{}
	s := simulate(t, cfg, 400, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = string(rune('a' + t.ID%20)) }
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			where[a.Task.Key] = append(where[a.Task.Key], a.Slot.ID)
			return time.Second, task.OK
		}
	})
	s.sleep(10 * time.Second)
	id := s.ask(task.Command{Op: task.Join, Slot: task.Slot{Host: "far"}}).Slots[0]
	s.sleep(10 * time.Second)
	s.ask(task.Command{Op: task.Leave, N: id})
	s.wait()
	stayed := 0
	for _, ids := range where {
		own := slices.Compact(slices.DeleteFunc(ids, func(id int) bool { return id == 5 }))
		require.Len(t, own, 1, "a key that went to the other host came back to its slot")
		if len(ids) == 20 {
			stayed++
		}
	}
	require.Greater(t, stayed, 10)
}

func TestASnapshotSaysWhatWaitsForWhat(t *testing.T) {
	cfg := config(2)
	cfg.Queue.PerKey, cfg.Queue.Buffer = 1, 7
	cfg.Order = Order{Keep: true, Window: 1000}
	cfg.Retry = retries(9, time.Hour)
	s := simulate(t, cfg, 100, func(s *sim) {
		s.grace = time.Second // so that it does not end at once
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			switch a.Task.Key {
			case "bad":
				return time.Second, task.Exit
			case "hot":
				return time.Hour, task.OK
			}
			return time.Second, task.OK
		}
		s.change = func(t *task.Task) {
			t.Key = "cold" + t.Records[0][0]
			if i := int(t.ID) - 1; i < 6 {
				t.Key = [...]string{"bad", "hot", "hot", "hot", "cold", "cold"}[i]
			}
		}
	})
	s.sleep(10 * time.Second)
	now := s.look()
	require.Equal(t, task.Going, now.State)
	require.Equal(t, "running", now.State.String())
	require.Equal(t, s.now, now.At)
	require.Len(t, now.Running, 2)
	require.EqualValues(t, 2, now.Running[1].Task.ID)
	require.Equal(t, task.Running{Task: now.Running[1].Task, Slot: 2, Attempt: 1, Since: epoch}, now.Running[1])
	require.Equal(t, now.At, now.Running[0].Since, "it has just begun")
	by := map[task.Cause]int{}
	for _, w := range now.Waiting {
		by[w.By] += w.Tasks
	}
	require.InDelta(t, 4, by[task.BySlots], 3, "at most as many as are read ahead")
	delete(by, task.BySlots)
	require.Equal(t, map[task.Cause]int{task.ByRetry: 1, task.ByLimit: 2, task.ByOrder: int(now.Stats.Finished())}, by)
	require.Equal(t, task.BySlots, now.Blocking.By)
	for _, w := range now.Waiting {
		switch w.By {
		case task.ByLimit:
			require.Equal(t, task.Blocking{By: task.ByLimit, Tasks: 2, Key: "hot", Limit: 1}, w)
		case task.ByRetry:
			require.Equal(t, epoch.Add(time.Second+time.Hour), w.Until)
		case task.ByOrder:
			require.EqualValues(t, 1, w.ID, "the first one is still retried")
		}
	}
	for _, c := range []struct {
		op    task.Op
		state task.State
		by    task.Cause
	}{{task.Pause, task.Paused, task.ByPause}, {task.Resume, task.Going, task.BySlots}, {task.Drain, task.Drains, task.ByEnd}, {task.Stop, task.Stops, task.ByEnd}} {
		s.ask(task.Command{Op: c.op})
		require.Equal(t, c.state, s.look().State)
		require.Equal(t, c.by, s.look().Blocking.By)
	}
}

func TestASnapshotNamesTheWorkerOfAKey(t *testing.T) {
	cfg := config(2)
	cfg.Queue.Policy = policy("keyed")
	s := simulate(t, cfg, 10, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = string(rune('a' + t.ID%2)) }
	})
	slot := map[string]int{}
	for _, a := range s.look().Running {
		slot[a.Task.Key] = a.Slot
	}
	require.Equal(t, []task.Blocking{
		{By: task.ByKey, Tasks: 4, Key: "a", Slot: slot["a"]}, {By: task.ByKey, Tasks: 4, Key: "b", Slot: slot["b"]},
	}, s.look().Waiting)
	require.Equal(t, task.Blocking{By: task.ByKey, Tasks: 1, Key: "b", Slot: slot["b"], ID: 1}, *s.where(9).Blocking)
}

// A task for which places are kept is not one of those that wait for it, and takes no more
// places than there are.
func TestASnapshotNamesTheTaskForWhichPlacesAreKept(t *testing.T) {
	cfg := config(4)
	cfg.Queue.Terms = true
	s := simulate(t, cfg, 50, func(s *sim) {
		s.change = func(t *task.Task) {
			if t.ID == 2 {
				t.Asked = &task.Terms{Weight: 99}
			}
		}
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 1 {
				return time.Hour, task.OK
			}
			return time.Second, task.OK
		}
	})
	s.sleep(time.Minute)
	kept := task.Blocking{By: task.ByPlaces, ID: 2, Limit: 4}
	now := s.look()
	kept.Tasks = 32
	require.Equal(t, kept, *now.Blocking)
	require.Equal(t, []task.Blocking{kept, {By: task.ByPlaces, Tasks: 1, Limit: 4}}, now.Waiting)
	kept.Tasks = 1
	require.Equal(t, kept, *s.where(50).Blocking)
	require.Equal(t, task.Blocking{By: task.ByPlaces, Tasks: 1, Limit: 4}, *s.where(2).Blocking)
}

// TestNoTimePassesWhileSuspended: neither timeouts, nor the grace before a kill,
// nor waits for a retry.
func TestNoTimePassesWhileSuspended(t *testing.T) {
	suspend := func(s *sim) {
		s.ask(task.Command{Op: task.Suspend})
		s.ask(task.Command{Op: task.Suspend})
		s.sleep(time.Hour)
		s.ask(task.Command{Op: task.Continue})
		s.ask(task.Command{Op: task.Continue})
	}
	cfg := config(1)
	cfg.Limit.Timeout = 10 * time.Second
	s := simulate(t, cfg, 1, lasting(100*time.Hour, 1000*time.Hour))
	s.sleep(9 * time.Second)
	suspend(s)
	s.sleep(5 * time.Second) // its timeout has passed: it is being ended
	suspend(s)
	s.wait()
	require.Equal(t, task.Timeout, s.finished[1])
	require.Equal(t, 2*time.Hour+cfg.Limit.Timeout+cfg.Limit.KillAfter, s.took())

	cfg = config(1)
	cfg.Retry = retries(1, 10*time.Second)
	s = simulate(t, cfg, 1, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Second, [...]task.Outcome{1: task.Exit, 2: task.OK}[a.Number]
		}
	})
	s.sleep(2 * time.Second)
	suspend(s)
	stats := s.wait().Stats
	require.Equal(t, time.Hour+12*time.Second, s.took())
	require.Equal(t, 12*time.Second, stats.Elapsed(stats.Last))

	// What is noticed only after SIGCONT, but before the command to continue, happened
	// when the clock was stopped.
	s = simulate(t, config(2), 2, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return [...]time.Duration{1: 10 * time.Second, 2: 10 * time.Hour}[a.Task.ID], task.OK
		}
	})
	s.sleep(2 * time.Second)
	suspend(s)
	s.wait()
	require.Equal(t, task.OK, s.finished[1])
	i := slices.IndexFunc(s.events, func(e task.Event) bool { return e.Kind == task.Finished && e.ID == 1 })
	require.Equal(t, epoch.Add(2*time.Second), s.events[i].At)

	s = simulate(t, config(1), 2, lasting(1000*time.Hour, 0), deaf)
	s.ask(task.Command{Op: task.Stop})
	suspend(s)
	require.Equal(t, 1, s.wait().Abandoned)
	require.Equal(t, time.Hour+5*time.Second+margin, s.took())
}

// TestTasksThatWaitAsideHoldNobodyBack: what waits for a retry does not fill the
// read-ahead, up to a bound that is told.
func TestTasksThatWaitAsideHoldNobodyBack(t *testing.T) {
	cfg := config(4)
	cfg.Retry = retries(1, time.Hour)
	s := simulate(t, cfg, 3000, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID <= 1000 && a.Number == 1 {
				return time.Millisecond, task.Exit
			}
			return time.Millisecond, task.OK
		}
	})
	s.sleep(time.Minute)
	stats := s.look().Stats
	require.EqualValues(t, 2000, stats.Of(task.OK))

	for name, c := range map[string]struct {
		change        func(*task.Task)
		n, most, over int
	}{
		"tasks": {nil, asideTasks + 4000, asideTasks, 4000},
		"bytes": {func(t *task.Task) { t.Stdin = make([]byte, 1<<20) }, 500, asideBytes >> 20, 2 * cfg.Queue.Buffer},
	} {
		cfg := config(4)
		cfg.Retry = retries(1, time.Hour)
		s := simulate(t, cfg, c.n, func(s *sim) {
			s.change = c.change
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				return time.Millisecond, [...]task.Outcome{1: task.Exit, 2: task.OK}[a.Number]
			}
		})
		s.sleep(time.Minute)
		require.InDelta(t, c.most, s.look().Stats.Admitted, float64(c.over), name)
		notices := slices.DeleteFunc(slices.Clone(s.events), func(e task.Event) bool { return e.Kind != task.Notice })
		require.Len(t, notices, 1)
		require.EqualValues(t, c.n, s.wait().Stats.Of(task.OK))
	}
}

// A run fails at a command while tasks may start, and not once it drains.
func TestFailEndsTheRun(t *testing.T) {
	for _, drained := range []bool{false, true} {
		why := errors.New("it cannot go on")
		s := simulate(t, config(1), 3)
		if drained {
			s.ask(task.Command{Op: task.Drain})
		}
		s.ask(task.Command{Op: task.Fail, Err: why})
		if drained {
			why = nil
		}
		end := s.wait()
		require.Equal(t, why, end.Err)
		require.Equal(t, int64(1), end.Stats.Of(task.OK), "what runs may finish")
		require.Equal(t, int64(2), end.Stats.Of(task.NotRun))
	}
}
