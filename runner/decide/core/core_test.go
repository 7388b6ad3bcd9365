package core

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestNoSlotIdlesWhileItsItemsWait checks for each policy that no slot is free while an
// item that it could run waits at another slot.
func TestNoSlotIdlesWhileItsItemsWait(t *testing.T) {
	for _, name := range []string{"fifo", "longest-first", "fair", "least-busy", "round-robin", "keyed"} {
		for round := range crewtest.Rounds(10) {
			n := crewtest.Rand(t, round)
			s := simulate(t, sendAhead(name, 1+n.IntN(3)), 200, func(s *sim) {
				s.Pause = time.Duration(n.IntN(3)) * 100 * time.Millisecond
				s.change = func(t *task.Task) { t.Key, t.Cost = string(rune('a'+n.IntN(30))), 1+n.Int64N(5) }
				s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
					return time.Duration(n.IntN(1000)) * time.Millisecond, task.OK
				}
			})
			for _, host := range []string{"a", "b", "c", "d"} {
				s.join(1+n.IntN(3), host)
				s.sleep(time.Second)
			}
			for !s.over {
				at, ok := s.next()
				require.True(t, ok)
				s.sleep(at.Sub(s.now))
				for _, a := range s.ahead {
					free := s.core.fitsElsewhere(s.core.entries[a.Task.ID])
					require.False(t, free, "%s: task %d waits at worker %d", name, a.Task.ID, a.Slot.ID)
				}
			}
			require.EqualValues(t, 200, s.wait().Stats.ByOutcome[task.OK])
			require.Len(t, s.eventsOf(task.Started), 200)
			require.LessOrEqual(t, len(s.recalled), 150, "%s: recalls of tasks go on", name)
		}
	}
}

// TestEndsComeInAnyOrder checks that the end of an attempt may be reported before the end of the
// attempt before it in the slot.
func TestEndsComeInAnyOrder(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 3)
	s.join(1, "a")
	second := s.ahead[0]
	s.ahead = nil
	s.step(func(c *Core) { c.Ended(&task.Result{Task: second.Task, Attempt: 1, Outcome: task.OK}) })
	require.EqualValues(t, 1, s.core.snapshot().Stats.Running)
	require.EqualValues(t, 3, s.wait().Stats.ByOutcome[task.OK])
}

// TestUntilFollowsTheClock checks that the machine's clock is read again and again, since it may
// be set and the machine may sleep.
func TestUntilFollowsTheClock(t *testing.T) {
	cfg := config(1)
	cfg.Limit.Until = epoch.Add(time.Hour)
	c := New(cfg, Executor{}, epoch)
	wake := func(after time.Duration) time.Duration {
		now := epoch.Add(after)
		return c.Step(now, func(*Core) {}).Wake.Sub(now)
	}
	require.LessOrEqual(t, wake(0), clockCheckEvery)
	require.LessOrEqual(t, wake(59*time.Minute+59*time.Second), time.Second)
	wake(time.Hour)
	require.Equal(t, Late, c.Ending().Reason)
}

// TestStartListIsReused checks that the list of starts is reused, since a new one for each
// step would cost time.
func TestStartListIsReused(t *testing.T) {
	s := simulate(t, config(1), 2)
	s.wait()
	require.Empty(t, s.core.fx.Start)
	require.NotZero(t, cap(s.core.fx.Start))
}

// TestLongChains checks that a long chain of tasks, each after the one before, can fail and be
// cancelled as a whole.
func TestLongChains(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		s := simulate(t, feed(1), 0, func(s *sim) {
			s.Open = true
			s.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }
		})
		const long = 5_000
		list := make([]*task.Task, long)
		for i := range list {
			list[i] = &task.Task{ID: uint64(i + 1)}
			if i > 0 {
				list[i].Asked = &task.Terms{After: []uint64{uint64(i)}}
			}
		}
		s.add(list...)
		want := task.NotRun
		if cancel {
			want = task.Cancelled
			require.Len(t, s.ask(task.Command{Op: task.Cancel, All: true}).IDs, long)
		}
		s.ask(task.Command{Op: task.StopReading})
		require.GreaterOrEqual(t, s.wait().Stats.ByOutcome[want], int64(long-1))
		require.Equal(t, task.ByReader, s.core.snapshot().Blocking.By, "only the results are left")
	}
}

// TestCommandsPerState tries each command in each state, and compares the result with the table of the
// man page.
func TestCommandsPerState(t *testing.T) {
	page := crewtest.ReadFile(t, "../../../man/crew-serve.1")
	ops := map[string]task.Op{
		"pause": task.Pause, "resume": task.Resume, "resize": task.Resize, "cancel": task.Cancel, "retry": task.Retry,
		"drain": task.Drain, "drain --rest": task.StopReading, "stop": task.Stop, "add": task.Add,
		"hold": task.Hold, "release": task.Release, "move": task.Move,
	}
	_, table, _ := strings.Cut(page, " running  paused  rest  draining  stopping  done\n")
	table, _, _ = strings.Cut(table, ".Ed")
	reach := [task.StateDone][]task.Op{
		task.StatePaused: {task.Pause}, task.StateFinishing: {task.StopReading}, task.StateDraining: {task.Drain}, task.StateStopping: {task.Drain, task.Stop},
	}
	for line := range strings.Lines(table) {
		cells := regexp.MustCompile(`  +`).Split(strings.TrimSpace(line), -1)
		require.Len(t, cells, 2+int(task.StateDone), line)
		require.Contains(t, ops, cells[0])
		cmd := task.Command{Op: ops[cells[0]], N: 1}
		delete(ops, cells[0])
		if cmd.Op == task.Cancel {
			cmd.IDs = []uint64{1}
		}
		for state, first := range reach {
			s := simulate(t, config(1), 1000, func(s *sim) { s.Grace = time.Minute })
			for _, op := range first {
				s.ask(task.Command{Op: op})
			}
			require.EqualValues(t, state, s.core.snapshot().State)
			err := s.try(cmd).Err
			require.Equal(t, cells[1+state] == "yes", err == nil, "%s in %d: %v", cells[0], state, err)
			if err != nil {
				require.EqualError(t, err, refusals[state])
			}
			cmd := cmd
			cmd.Signal = 2
			require.NoError(t, s.try(cmd).Err, "a signal is always obeyed")
			s.ask(task.Command{Op: task.Kill})
		}
	}
	require.Empty(t, ops, "the man page lacks them")
}

// TestNoTaskWaitsForever checks that 64 starts make up for a step of priority, and that a task loses
// nothing of that if it is lent another priority meanwhile.
func TestNoTaskWaitsForever(t *testing.T) {
	for _, follower := range []uint64{499, 250} {
		s := simulate(t, feed(1), 0, func(s *sim) { s.Open = true })
		for id := range uint64(500) {
			terms := &task.Terms{Priority: 5}
			switch id {
			case 1:
				terms.Priority = 0
			case follower:
				terms = &task.Terms{Priority: 1, After: []uint64{2}}
			}
			s.add(&task.Task{ID: id + 1, Asked: terms})
			if id > 10 {
				s.sleep(time.Second)
			}
		}
		require.InDelta(t, 5*64+10, slices.Index(s.begun, 2), 2)
	}
}
