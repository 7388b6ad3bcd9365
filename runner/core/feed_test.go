package core

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crew/runner/task"
)

// feed returns the configuration of a run that takes its tasks from commands.
func feed(workers int) Config {
	cfg := config(workers)
	cfg.Feed, cfg.Queue.Terms = Feed{Open: true, Remember: true}, true
	return cfg
}

func numbered(ids ...uint64) (list []*task.Task) {
	for _, id := range ids {
		list = append(list, &task.Task{ID: id, Argv: []string{"true"}})
	}
	return list
}

func after(t *task.Task, ids ...uint64) *task.Task {
	t.Asked = &task.Terms{After: ids}
	return t
}

// add adds tasks.
func (s *sim) add(tasks ...*task.Task) { s.ask(task.Command{Op: task.Add, Tasks: tasks}) }

func TestAddedTasksRun(t *testing.T) {
	s := simulate(t, feed(2), 0, endless)
	require.Equal(t, task.ByInput, s.look().Blocking.By)
	s.add(numbered(1, 2, 7)...)
	require.Equal(t, 1, s.look().Queued, "two start at once")
	s.sleep(time.Hour)
	s.add(numbered(8)...)
	require.Equal(t, []task.Where{{ID: 7, Known: true}, {ID: 9}},
		s.ask(task.Command{Op: task.Explain, IDs: []uint64{7, 9}}).Wheres)
	s.ask(task.Command{Op: task.Rest})
	require.ErrorContains(t, s.try(task.Command{Op: task.Add, Tasks: numbered(9)}).Err, "it drains: it takes nothing more")
	end := s.wait()
	require.EqualValues(t, 4, end.Stats.Of(task.OK))
	require.True(t, end.Stats.InputEnd)
	require.Equal(t, Completed, end.Reason)
}

func TestAQueueHasABound(t *testing.T) {
	cfg := feed(1)
	cfg.Feed.MaxQueued = 3
	s := simulate(t, cfg, 0, endless)
	s.add(numbered(1)...)
	require.ErrorIs(t, s.try(task.Command{Op: task.Add, Tasks: numbered(2, 3, 4, 5)}).Err, task.ErrFull)
	s.add(numbered(2, 3, 4)...)
	reply := s.try(task.Command{Op: task.Add, Tasks: numbered(5)})
	require.ErrorIs(t, reply.Err, task.ErrFull)
	require.Zero(t, reply.Room)
	s.ask(task.Command{Op: task.Pause})
	s.ask(task.Command{Op: task.Resize, N: 9})
	require.Zero(t, s.ask(task.Command{Op: task.Add}).Room)
	s.ask(task.Command{Op: task.Resize, N: 1})
	s.ask(task.Command{Op: task.Resume})
	s.ask(task.Command{Op: task.Add, N: 1, Tasks: numbered(5)})
	s.ask(task.Command{Op: task.Rest})
	require.EqualValues(t, 5, s.wait().Stats.Of(task.OK))
}

func TestAnIdleRunEnds(t *testing.T) {
	cfg := feed(1)
	cfg.Feed.IdleExit = time.Minute
	s := simulate(t, cfg, 0, endless)
	s.sleep(time.Hour) // it may take long to learn what an earlier run left
	s.add()
	s.sleep(50 * time.Second)
	s.add(numbered(1)...)
	require.Equal(t, Completed, s.wait().Reason)
	require.Equal(t, time.Hour+50*time.Second+time.Second+time.Minute, s.took())
}

func TestTasksComeAfterOthers(t *testing.T) {
	s := simulate(t, feed(9), 0, endless, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 2 {
				return time.Second, task.Exit
			}
			return time.Minute, task.OK
		}
	})
	list := numbered(1, 2, 3, 4, 5, 6, 7)
	after(list[2], 1)
	after(list[3], 1, 3)
	after(list[4], 2)
	after(list[5], 5)
	after(list[6], 1, 2)
	require.ErrorContains(t, s.try(task.Command{Op: task.Add, Tasks: []*task.Task{after(&task.Task{ID: 1}, 1)}}).Err, "no task 1 came before")
	s.add(list...)
	require.Equal(t, 5, s.look().Aside)
	require.Equal(t, task.Blocking{By: task.ByAfter, Tasks: 1, ID: 1}, *s.where(4).Blocking)
	require.Equal(t, task.Blocking{By: task.ByAfter, Tasks: 3, ID: 1}, *s.look().Blocking)
	s.sleep(2 * time.Second)
	require.Equal(t, task.NotRun, s.finished[5])
	require.Equal(t, task.NotRun, s.finished[6], "and what comes after that")
	require.Equal(t, task.NotRun, s.finished[7])
	s.add(after(&task.Task{ID: 8}, 2), after(&task.Task{ID: 9}, 1))
	require.EqualError(t, s.core.queue.depend(&entry{task: after(&task.Task{ID: 9}, 2)}), "task 2, which it comes after, did not succeed: exit 1")
	require.EqualError(t, s.core.queue.depend(&entry{task: after(&task.Task{ID: 9}, 99)}), "task 99, which it comes after, failed or is forgotten")
	named := &task.Task{ID: 9, Asked: &task.Terms{Name: "x"}}
	require.EqualError(t, &notSucceeded{9, named, "exit 3"}, "task 9 (x), which it comes after, did not succeed: exit 3")
	s.sleep(time.Minute)
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{3}})
	s.sleep(time.Second) // events may wait to be handed over together
	require.Equal(t, task.NotRun, s.finished[4])
	s.add(&task.Task{ID: 10}, after(&task.Task{ID: 11}, 10))
	s.ask(task.Command{Op: task.Drain})
	s.wait()
	require.Equal(t, task.NotRun, s.finished[8], "what it comes after had failed before")
	require.Equal(t, task.OK, s.finished[9])
	require.Equal(t, task.NotRun, s.finished[11])
}

// A task that was refused because another one makes the same file does not free that for
// a third one.
func TestOneTaskMakesAFile(t *testing.T) {
	s := simulate(t, feed(9), 0, endless, func(s *sim) {
		s.check = func(*task.Task) *task.Result { return nil }
	})
	twins := numbered(1, 2, 3, 4)
	for _, twin := range twins {
		twin.Makes = &task.Making{Targets: []task.Target{{Path: "a"}}}
	}
	s.add(twins[:3]...)
	s.sleep(2 * time.Second)
	s.add(twins[3])
	s.ask(task.Command{Op: task.Retry, IDs: []uint64{2}})
	s.ask(task.Command{Op: task.Drain})
	s.wait()
	require.Equal(t, []uint64{1, 4}, s.begun)
	require.Equal(t, task.StartFailed, s.finished[5])
}

// What earlier runs did counts as well: of a task that is not known to have succeeded, that is
// not assumed.
func TestTasksComeAfterThoseOfEarlierRuns(t *testing.T) {
	s := simulate(t, feed(9), 0, endless)
	s.ask(task.Command{Op: task.Add, N: 9, Succeeded: [][2]uint64{{1, 3}, {6, 6}}})
	s.add(after(&task.Task{ID: 10}, 1, 3, 6), after(&task.Task{ID: 11}, 4), after(&task.Task{ID: 12}, 7), after(&task.Task{ID: 13}, 10, 2))
	s.ask(task.Command{Op: task.Rest})
	s.wait()
	require.Equal(t, map[uint64]task.Outcome{10: task.OK, 11: task.NotRun, 12: task.NotRun, 13: task.OK}, s.finished)
}

// While it is looked up what is up to date, that is why nothing starts.
func TestLookingTakesTime(t *testing.T) {
	c := New(config(1), epoch, false)
	list := numbered(1, 2)
	c.Number()
	c.Number()
	list[0].Makes = &task.Making{Targets: []task.Target{{Path: "a"}}}
	list[1].Makes = &task.Making{Targets: []task.Target{{Path: "b"}}}
	c.Step(epoch, func(c *Core) { c.Read(list) })
	at := epoch.Add(time.Minute)
	c.Step(at, func(c *Core) {
		require.Equal(t, task.Blocking{By: task.ByCheck, Tasks: 2}, *c.Do(task.Command{Op: task.Look}).Snapshot.Blocking)
		b := c.Do(task.Command{Op: task.Explain, IDs: []uint64{2}}).Wheres[0].Blocking
		require.Equal(t, "1 task waits for the check of what is up to date", b.Text(at))
	})
}

func TestRetryByCommand(t *testing.T) {
	cfg := feed(1)
	cfg.Retry = retries(1, time.Hour)
	attempts := map[uint64][]int{}
	s := simulate(t, cfg, 0, endless, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			attempts[a.Task.ID] = append(attempts[a.Task.ID], a.Number)
			if a.Task.ID == 1 {
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}
	})
	retry := func(id uint64) task.Reply { return s.try(task.Command{Op: task.Retry, IDs: []uint64{id}}) }
	s.add(numbered(1, 2)...)
	require.ErrorContains(t, retry(2).Err, "does not wait for a retry")
	require.ErrorContains(t, retry(3).Err, "there is no task 3")
	s.sleep(5 * time.Second)
	require.Equal(t, task.Blocking{By: task.ByRetry, Tasks: 1, Until: epoch.Add(time.Second + time.Hour)}, *s.where(1).Blocking)
	require.Equal(t, []uint64{1}, retry(1).IDs)
	s.sleep(2 * time.Second)
	require.Equal(t, task.Exit, s.where(1).Outcome)
	require.Equal(t, []uint64{3}, retry(1).IDs, "it has failed, so it is a new task")
	require.Error(t, retry(1).Err)
	require.Error(t, retry(2).Err)
	s.ask(task.Command{Op: task.Rest})
	end := s.wait()
	require.Equal(t, map[uint64][]int{1: {1, 2}, 2: {1}, 3: {3}}, attempts)
	require.EqualValues(t, 2, end.Stats.Of(task.OK))
	require.Less(t, s.took(), time.Minute)
}

// TestRetriesFollow: what was not run because it came after tasks that failed runs once all of
// these run again, or have succeeded.
func TestRetriesFollow(t *testing.T) {
	fails := true
	s := simulate(t, feed(2), 0, endless, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if fails && a.Task.ID <= 2 {
				return 0, task.Exit
			}
			return 0, task.OK
		}
	})
	list := numbered(1, 2, 3, 4, 5, 6, 7)
	after(list[3], 1, 3)
	after(list[4], 4)
	after(list[5], 1, 2)
	after(list[6], 2)
	s.add(list...)
	s.sleep(time.Second)
	fails = false
	require.Equal(t, []uint64{8, 9, 10}, s.ask(task.Command{Op: task.Retry, IDs: []uint64{1}}).IDs, "1, 4 and 5, but not 6")
	require.ErrorContains(t, s.try(task.Command{Op: task.Retry, IDs: []uint64{4}}).Err, "was run again already, as task 9")
	s.sleep(time.Second)
	require.Equal(t, []uint64{11, 12, 13}, s.ask(task.Command{Op: task.Retry, IDs: []uint64{7, 2}}).IDs, "2, 6 and 7")
	s.ask(task.Command{Op: task.Rest})
	s.wait()
	for id := uint64(8); id <= 13; id++ {
		require.Equal(t, task.OK, s.finished[id], id)
	}
	require.Equal(t, []uint64{1, 2, 3, 8, 9, 10, 11}, s.begun[:7])
}

func TestCancelByKey(t *testing.T) {
	s := simulate(t, config(3), 40, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = fmt.Sprint(t.ID % 4) }
	})
	require.Len(t, s.ask(task.Command{Op: task.Cancel, Key: "1"}).IDs, 10)
	require.ErrorContains(t, s.try(task.Command{Op: task.Cancel, Key: "9"}).Err, `no task of key "9"`)
	reply := s.try(task.Command{Op: task.Cancel, IDs: []uint64{99, 2, 6}})
	require.ErrorContains(t, reply.Err, "there is no task 99")
	require.Equal(t, []uint64{2, 6}, reply.IDs)
	end := s.wait()
	require.EqualValues(t, 12, end.Stats.Of(task.Cancelled))
	require.EqualValues(t, 28, end.Stats.Of(task.OK))
}

func TestRestRunsWhatWasRead(t *testing.T) {
	cfg := config(2)
	s := simulate(t, cfg, 1000)
	s.ask(task.Command{Op: task.Rest})
	s.ask(task.Command{Op: task.Rest})
	require.Equal(t, task.Rests, s.look().State)
	s.ask(task.Command{Op: task.Pause})
	require.Equal(t, task.Paused, s.look().State)
	s.ask(task.Command{Op: task.Resize, N: 50})
	s.ask(task.Command{Op: task.Resume})
	end := s.wait()
	require.Equal(t, Told, end.Reason)
	require.False(t, end.Stats.InputEnd)
	require.InDelta(t, cfg.Queue.Buffer, end.Stats.Of(task.OK), 3)
	require.Equal(t, end.Stats.Admitted, end.Stats.Of(task.OK))
}

// TestWhatIsLegal tries each command in each state.
func TestWhatIsLegal(t *testing.T) {
	reach := map[task.State][]task.Op{
		task.Going: nil, task.Paused: {task.Pause}, task.Rests: {task.Rest},
		task.Drains: {task.Drain}, task.Stops: {task.Drain, task.Stop},
	}
	for state, ops := range reach {
		for op, in := range legal {
			s := simulate(t, config(1), 1000, func(s *sim) { s.grace = time.Minute })
			for _, op := range ops {
				s.ask(task.Command{Op: op})
			}
			require.Equal(t, state, s.look().State)
			cmd := task.Command{Op: op, N: 1}
			if op == task.Cancel {
				cmd.IDs = []uint64{1}
			}
			err := s.try(cmd).Err
			require.Equal(t, in[state], err == nil, "%v in %v: %v", op, state, err)
			if err != nil {
				require.EqualError(t, err, reasons[state])
			}
			cmd.Signal = 2
			require.NoError(t, s.try(cmd).Err, "a signal is always obeyed")
			s.ask(task.Command{Op: task.Kill})
		}
	}
}

// The man page has the table of what is legal.
func TestManPageHasTheStates(t *testing.T) {
	page, err := os.ReadFile("../../man/crew-serve.1")
	require.NoError(t, err)
	ops := map[string]task.Op{
		"pause": task.Pause, "resume": task.Resume, "resize": task.Resize, "cancel": task.Cancel, "retry": task.Retry,
		"drain": task.Drain, "drain --rest": task.Rest, "stop": task.Stop, "add": task.Add,
		"hold": task.Hold, "release": task.Release, "move": task.Move,
	}
	_, table, _ := strings.Cut(string(page), "Ta running Ta paused Ta rest Ta draining Ta stopping Ta done\n")
	table, _, _ = strings.Cut(table, ".El")
	got := map[task.Op][task.Done + 1]bool{task.Grow: legal[task.Grow]} // a resize, too
	for line := range strings.Lines(table) {
		cells := regexp.MustCompile(`\s+Ta\s+`).Split(strings.TrimSpace(strings.TrimPrefix(line, ".It ")), -1)
		require.Len(t, cells, 2+int(task.Done), line)
		var in [task.Done + 1]bool
		for state, cell := range cells[1:] {
			in[state] = cell == "yes"
		}
		got[ops[cells[0]]] = in
	}
	require.Equal(t, legal, got)
}

// TestSteeringKeepsTheBooks throws commands at a fed run at random: every task that
// was accepted has one outcome, and tasks of a key are checked and run in order.
func TestSteeringKeepsTheBooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := feed(rapid.IntRange(1, 4).Draw(rt, "workers"))
		keyed := rapid.Bool().Draw(rt, "keyed")
		if keyed {
			cfg.Queue.Policy = policy("keyed")
		} else if rapid.Bool().Draw(rt, "limited") {
			cfg.Queue.PerKey = 1
		}
		cfg.Retry = Retry{Max: 2, Delay: time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 0.5 }}
		order := map[string][]uint64{}
		makes := rapid.Bool().Draw(rt, "makes")
		s := simulate(t, cfg, 0, endless, func(s *sim) {
			s.check = func(tk *task.Task) *task.Result {
				for id, e := range s.core.entries {
					refused := e.state == decided && e.slot == nil
					require.False(t, keyed && id < tk.ID && e.task.Key == tk.Key && !refused, "task %d is checked while %d is unfinished", tk.ID, id)
				}
				if tk.ID%4 > 0 {
					return nil
				}
				return skipped(tk)
			}
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				order[a.Task.Key] = append(order[a.Task.Key], a.Task.ID)
				for _, other := range s.running {
					require.False(t, makes && a.Task.Makes.Targets[0] == other.Task.Makes.Targets[0], "tasks %d and %d make one file", a.Task.ID, other.Task.ID)
				}
				if (a.Task.ID+uint64(a.Number))%3 == 0 {
					return time.Second, task.Exit
				}
				return time.Duration(a.Task.ID%5) * time.Second, task.OK
			}
		})
		var last, accepted uint64
		byHand := false // the order was changed
		id := func() uint64 { return rapid.Uint64Range(1, max(last, 1)).Draw(rt, "id") }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 12).Draw(rt, "step") {
			case 0, 1, 2, 3:
				last++
				tk := &task.Task{ID: last, Key: string(rune('a' + last%3)), Argv: []string{"x"}}
				if rapid.IntRange(0, 5).Draw(rt, "terms") == 0 {
					tk.Asked = &task.Terms{At: s.now.Add(time.Duration(rapid.IntRange(-5, 90).Draw(rt, "at")) * time.Second), Held: rapid.Bool().Draw(rt, "held")}
					byHand = true
				}
				if makes {
					tk.Makes = making(0, "", fmt.Sprint(last%5), fmt.Sprint(last%7)).Makes
				}
				if last > 1 && (makes || !keyed) && rapid.Bool().Draw(rt, "after") {
					terms := tk.Terms()
					terms.After = []uint64{rapid.Uint64Range(1, last-1).Draw(rt, "first")}
					tk.Asked = &terms
				}
				s.add(tk)
				accepted++
			case 4:
				s.ask(task.Command{Op: task.Resize, N: rapid.IntRange(1, 8).Draw(rt, "n")})
			case 5:
				s.ask(task.Command{Op: task.Pause})
			case 6:
				s.ask(task.Command{Op: task.Resume})
			case 7:
				s.try(task.Command{Op: task.Cancel, IDs: []uint64{id()}})
			case 8:
				reply := s.try(task.Command{Op: task.Retry, IDs: []uint64{id()}})
				if n := len(reply.Tasks); n > 0 {
					last, accepted = reply.Tasks[n-1].ID, accepted+uint64(n)
				}
			case 9:
				require.Equal(t, last > 0, s.where(id()).Known)
				s.look()
			case 10:
				s.slow = !s.slow
			case 11, 12:
				op := rapid.SampledFrom([]task.Op{task.Hold, task.Hold, task.Release, task.Move}).Draw(rt, "by hand")
				reply := s.try(task.Command{Op: op, N: rapid.IntRange(-1, 0).Draw(rt, "end"), IDs: []uint64{id(), id()}})
				byHand = byHand || len(reply.IDs) > 0
			}
			s.sleep(time.Duration(rapid.IntRange(0, 2).Draw(rt, "pause")) * time.Second)
		}
		s.slow = false
		for range 2 { // held ones that have a time wait for that afterwards
			s.try(task.Command{Op: task.Release, IDs: s.ask(task.Command{Op: task.Find, All: true}).IDs})
		}
		s.ask(task.Command{Op: task.Resume})
		s.ask(task.Command{Op: cmp.Or(task.Op(rapid.IntRange(0, 2).Draw(rt, "end")), task.Rest)})
		require.EqualValues(t, accepted, s.wait().Stats.Finished())
		require.Len(t, s.finished, int(accepted))
		require.Empty(t, s.core.queue.makers.targets)
		require.Empty(t, s.core.queue.makers.last)
		require.Empty(t, s.core.queue.after)
		for key, ids := range order {
			if !byHand && (keyed || cfg.Queue.PerKey == 1 && len(ids) < 2) {
				require.True(t, slices.IsSorted(ids), "tasks of key %s ran in the order %v", key, ids)
			}
		}
	})
}
