package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func at(t *task.Task, when time.Time) *task.Task {
	t.Asked = &task.Terms{At: when}
	return t
}

// A task that is to start later does so by the machine's clock, also if that is set or the
// run was suspended meanwhile.
func TestTasksStartAtTheirTime(t *testing.T) {
	s := simulate(t, feed(1), 0, endless)
	list := numbered(1, 2, 3, 4)
	at(list[0], epoch.Add(time.Hour))
	at(list[1], epoch.Add(2*time.Hour))
	at(list[2], epoch.Add(-time.Hour))
	at(list[3], epoch.Add(time.Hour+10*time.Second))
	s.add(list...)
	require.Equal(t, []uint64{3}, s.begun)
	s.sleep(2 * time.Second)
	want := task.Blocking{By: task.ByTime, Tasks: 3, Until: epoch.Add(time.Hour)}
	require.Equal(t, want, *s.look().Blocking)
	want.Tasks = 1
	require.Equal(t, want, *s.where(1).Blocking)
	require.LessOrEqual(t, s.wake.Sub(s.now), clockLook, "the clock may be set")
	s.ask(task.Command{Op: task.Suspend})
	s.sleep(10 * time.Minute)
	s.ask(task.Command{Op: task.Continue})
	s.sleep(45 * time.Minute)
	s.sleep(5*time.Minute - 3*time.Second)
	require.Equal(t, []uint64{3}, s.begun)
	s.sleep(2 * time.Second)
	require.Equal(t, []uint64{3, 1}, s.begun)
	require.EqualError(t, s.try(task.Command{Op: task.Release, IDs: []uint64{1}}).Err, "task 1 has ended")
	require.EqualError(t, s.try(task.Command{Op: task.Retry, IDs: []uint64{2}}).Err, "task 2 does not wait for a retry")
	s.ask(task.Command{Op: task.Release, IDs: []uint64{2}})
	s.ask(task.Command{Op: task.Rest})
	s.wait()
	require.Equal(t, []uint64{3, 1, 2, 4}, s.begun)
}

func TestHoldAndMove(t *testing.T) {
	s := simulate(t, feed(1), 0, endless)
	list := numbered(1, 2, 3, 4, 5, 6)
	after(list[5], 2)
	s.add(list...)
	by := func(op task.Op, n int, ids ...uint64) task.Reply { return s.try(task.Command{Op: op, N: n, IDs: ids}) }
	reply := by(task.Hold, 0, 1, 2, 9, 6)
	require.EqualError(t, reply.Err, "task 1 runs already")
	require.Equal(t, []uint64{2, 6}, reply.IDs)
	require.True(t, reply.Tasks[0].Terms().Held)
	require.Equal(t, []uint64{2}, reply.Tasks[1].Terms().After)
	require.Equal(t, task.Blocking{By: task.ByHold, Tasks: 1}, *s.where(2).Blocking)
	require.EqualError(t, by(task.Hold, 0, 9).Err, "there is no task 9")
	require.EqualError(t, by(task.Release, 0, 3).Err, "task 3 is not held, and does not wait for its time")
	require.NoError(t, by(task.Move, -1, 4, 5).Err)
	s.sleep(10 * time.Second)
	require.Equal(t, []uint64{1, 4, 5, 3}, s.begun)
	require.Equal(t, 2, s.look().Aside)
	s.add(numbered(7)...)
	s.sleep(10 * time.Second)
	require.NoError(t, by(task.Release, 0, 2).Err)
	s.sleep(10 * time.Second)
	require.Equal(t, task.Blocking{By: task.ByHold, Tasks: 1}, *s.where(6).Blocking, "what it comes after has ended")
	s.ask(task.Command{Op: task.Rest})
	require.NoError(t, by(task.Release, 0, 6).Err)
	require.EqualValues(t, 7, s.wait().Stats.Of(task.OK))
}

// A task that waits for its retry under keyed keeps the others of its key waiting, also when
// it is moved or held. One that has not begun lets them go on when it is held.
func TestByHandInAKey(t *testing.T) {
	cfg := feed(2)
	cfg.Queue.Policy, cfg.Retry = policy("keyed"), retries(1, time.Minute)
	s := simulate(t, cfg, 0, endless, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 1 && a.Number == 1 {
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}
	})
	list := numbered(1, 2, 3)
	for _, tk := range list {
		tk.Key = "k"
	}
	s.add(list...)
	s.sleep(10 * time.Second)
	s.ask(task.Command{Op: task.Move, N: -1, IDs: []uint64{1}})
	s.ask(task.Command{Op: task.Hold, IDs: []uint64{1, 2}})
	s.sleep(2 * time.Minute)
	require.Equal(t, []uint64{1}, s.begun)
	s.ask(task.Command{Op: task.Release, IDs: []uint64{1}})
	s.sleep(10 * time.Second)
	require.Equal(t, []uint64{1, 1, 3}, s.begun)
	require.Nil(t, s.where(3).Blocking)
	s.ask(task.Command{Op: task.Release, IDs: []uint64{2}})
	s.ask(task.Command{Op: task.Rest})
	s.wait()
	require.Equal(t, []uint64{1, 1, 3, 2}, s.begun)
}

// With a limit per key, what is moved first starts before the others of its key.
func TestMoveFirstInALimitedKey(t *testing.T) {
	cfg := feed(1)
	cfg.Queue.PerKey = 1
	s := simulate(t, cfg, 0, endless)
	list := numbered(1, 2, 3, 4, 5, 6)
	for i, key := range []string{"a", "b", "c", "c", "b", "c"} {
		list[i].Key = key
	}
	s.add(list...)
	move := func(n int, id uint64) { s.ask(task.Command{Op: task.Move, N: n, IDs: []uint64{id}}) }
	move(-1, 2)
	move(-1, 6)
	move(1, 2)
	s.ask(task.Command{Op: task.Rest})
	require.EqualValues(t, 6, s.wait().Stats.Of(task.OK))
	require.Equal(t, []uint64{1, 6, 3, 4, 5, 2}, s.begun)
}

// A chain of tasks that come one after another ends however long it is, and is cancelled as
// a whole.
func TestLongChains(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		s := simulate(t, feed(1), 0, endless, func(s *sim) {
			s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }
		})
		const long = 50_000
		list := make([]*task.Task, long)
		for i := range list {
			list[i] = &task.Task{ID: uint64(i + 1)}
			if i > 0 {
				after(list[i], uint64(i))
			}
		}
		s.add(list...)
		want := task.NotRun
		if cancel {
			want = task.Cancelled
			require.Len(t, s.ask(task.Command{Op: task.Cancel, All: true}).IDs, long)
		}
		s.ask(task.Command{Op: task.Rest})
		require.GreaterOrEqual(t, s.wait().Stats.Of(want), int64(long-1))
	}
}

// Times that are far away do not disturb those that are near.
func TestFarTimes(t *testing.T) {
	s := simulate(t, feed(1), 0, endless)
	list := numbered(1, 2, 3)
	at(list[0], time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	at(list[1], epoch.Add(time.Hour))
	at(list[2], epoch.Add(time.Second))
	s.add(list...)
	s.sleep(2 * time.Second)
	require.Equal(t, []uint64{3}, s.begun)
	s.sleep(time.Hour)
	require.Equal(t, []uint64{3, 2}, s.begun)
	require.Equal(t, 9999, s.where(1).Blocking.Until.Year())
	s.ask(task.Command{Op: task.Drain})
	s.wait()
}

func TestCommandsNameTasks(t *testing.T) {
	s := simulate(t, feed(1), 0, endless)
	list := numbered(1, 2, 3, 4)
	list[1].Key, list[3].Key = "k", "k"
	s.add(list...)
	require.Equal(t, []uint64{1, 2, 3, 4}, s.ask(task.Command{Op: task.Find, All: true}).IDs)
	require.Equal(t, []uint64{2, 4}, s.ask(task.Command{Op: task.Find, Key: "k"}).IDs)
	require.Empty(t, s.ask(task.Command{Op: task.Find, Key: "l"}).IDs)
	require.Error(t, s.try(task.Command{Op: task.Cancel, Key: "l"}).Err)
	ids := func(only task.Only, n int) (ids []uint64) {
		for _, w := range s.ask(task.Command{Op: task.Explain, Only: only, N: n}).Wheres {
			ids = append(ids, w.ID)
		}
		return ids
	}
	require.Equal(t, []uint64{1}, ids(task.OnlyRunning, 0))
	require.Equal(t, []uint64{2, 3}, ids(task.OnlyWaiting, 2))
	require.Equal(t, []uint64{1, 2, 3, 4}, s.ask(task.Command{Op: task.Cancel, All: true}).IDs)
	require.Equal(t, []uint64{1}, s.ask(task.Command{Op: task.Find, All: true}).IDs, "it is being ended")
	s.ask(task.Command{Op: task.Rest})
	require.EqualValues(t, 4, s.wait().Stats.Of(task.Cancelled))
}
