package runner

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crew/runner/task"
)

// fed is a Source without tasks, whose end comes once it is closed.
type fed chan struct{}

func (f fed) Next(func() uint64) (*task.Task, error) {
	<-f
	return nil, io.EOF
}

// feed returns the configuration of a run that takes its tasks from commands.
func feed(workers int) Config {
	cfg := config(workers)
	cfg.Feed = Feed{Open: true, Remember: true}
	return cfg
}

func numbered(ids ...uint64) (list []*task.Task) {
	for _, id := range ids {
		list = append(list, &task.Task{ID: id, Argv: []string{"true"}})
	}
	return list
}

func after(t *task.Task, ids ...uint64) *task.Task {
	t.After = ids
	return t
}

func TestAddedTasksRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink := make(fed), &seen{}
		defer close(src)
		end := during(t, feed(2), src, &fake{}, nil, sink, func(r *Run) {
			require.Equal(t, task.ByInput, look(t, r).Blocking.By)
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(1, 2, 7)})
			require.Equal(t, 1, look(t, r).Queued, "two start at once")
			time.Sleep(time.Hour)
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(8)})
			require.Equal(t, []task.Where{{ID: 7, Known: true}, {ID: 9}},
				ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{7, 9}}).Wheres)
			ask(t, r, task.Command{Op: task.Rest})
			require.ErrorContains(t, r.Do(task.Command{Op: task.Add, Tasks: numbered(9)}).Err, "it drains: it takes nothing more")
		})
		require.EqualValues(t, 4, end.Stats.Of(task.OK))
		require.True(t, end.Stats.InputEnd)
		require.Equal(t, Completed, end.Reason)
	})
}

func TestAQueueHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, cfg := make(fed), feed(1)
		defer close(src)
		cfg.Feed.MaxQueued = 3
		end := during(t, cfg, src, &fake{}, nil, &seen{}, func(r *Run) {
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(1)})
			require.ErrorIs(t, r.Do(task.Command{Op: task.Add, Tasks: numbered(2, 3, 4, 5)}).Err, task.ErrFull)
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(2, 3, 4)})
			reply := r.Do(task.Command{Op: task.Add, Tasks: numbered(5)})
			require.ErrorIs(t, reply.Err, task.ErrFull)
			require.Zero(t, reply.Room)
			ask(t, r, task.Command{Op: task.Pause})
			ask(t, r, task.Command{Op: task.Resize, N: 9})
			require.Zero(t, ask(t, r, task.Command{Op: task.Add}).Room)
			ask(t, r, task.Command{Op: task.Resize, N: 1})
			ask(t, r, task.Command{Op: task.Resume})
			ask(t, r, task.Command{Op: task.Add, N: 1, Tasks: numbered(5)})
			ask(t, r, task.Command{Op: task.Rest})
		})
		require.EqualValues(t, 5, end.Stats.Of(task.OK))
	})
}

func TestAnIdleRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, cfg, begin := make(fed), feed(1), time.Now()
		defer close(src)
		cfg.Feed.IdleExit = time.Minute
		end := during(t, cfg, src, &fake{}, nil, &seen{}, func(r *Run) {
			time.Sleep(time.Hour) // it may take long to learn what an earlier run left
			ask(t, r, task.Command{Op: task.Add})
			time.Sleep(50 * time.Second)
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(1)})
		})
		require.Equal(t, time.Hour+50*time.Second+time.Second+time.Minute, time.Since(begin))
		require.Equal(t, Completed, end.Reason)
	})
}

func TestTasksComeAfterOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink, rec := make(fed), &seen{}, &told{}
		defer close(src)
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 2 {
				return time.Second, task.Exit
			}
			return time.Minute, task.OK
		}}
		list := numbered(1, 2, 3, 4, 5, 6, 7)
		after(list[2], 1)
		after(list[3], 1, 3)
		after(list[4], 2)
		after(list[5], 5)
		after(list[6], 1, 2)
		during(t, feed(9), src, exec, rec, sink, func(r *Run) {
			require.ErrorContains(t, r.Do(task.Command{Op: task.Add, Tasks: []*task.Task{after(&task.Task{ID: 1}, 1)}}).Err, "no task 1 came before")
			ask(t, r, task.Command{Op: task.Add, Tasks: list})
			require.Equal(t, 5, look(t, r).Aside)
			require.Equal(t, task.Blocking{By: task.ByAfter, Tasks: 1, ID: 1},
				*ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{4}}).Wheres[0].Blocking)
			require.Equal(t, task.Blocking{By: task.ByAfter, Tasks: 3, ID: 1}, *look(t, r).Blocking)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, task.StartFailed, sink.finished[5])
			require.Equal(t, task.StartFailed, sink.finished[6], "and what comes after that")
			require.Equal(t, task.StartFailed, sink.finished[7])
			ask(t, r, task.Command{Op: task.Add, Tasks: []*task.Task{after(&task.Task{ID: 8}, 2), after(&task.Task{ID: 9}, 1)}})
			time.Sleep(time.Minute)
			ask(t, r, task.Command{Op: task.Cancel, IDs: []uint64{3}})
			time.Sleep(time.Second) // events may wait to be handed over together
			synctest.Wait()
			require.Equal(t, task.StartFailed, sink.finished[4])
			ask(t, r, task.Command{Op: task.Add, Tasks: []*task.Task{{ID: 10}, after(&task.Task{ID: 11}, 10)}})
			ask(t, r, task.Command{Op: task.Drain})
		})
		require.Equal(t, task.StartFailed, sink.finished[8], "what it comes after had failed before")
		require.Equal(t, task.OK, sink.finished[9])
		require.Equal(t, task.NotRun, sink.finished[11])
	})
}

func TestRetryByCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink, cfg := make(fed), &seen{}, feed(1)
		defer close(src)
		cfg.Retry = Retry{Max: 1, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
		var mu sync.Mutex
		attempts := map[uint64][]int{}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			attempts[a.Task.ID] = append(attempts[a.Task.ID], a.Number)
			if a.Task.ID == 1 {
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}}
		begin := time.Now()
		end := during(t, cfg, src, exec, nil, sink, func(r *Run) {
			ask(t, r, task.Command{Op: task.Add, Tasks: numbered(1, 2)})
			require.ErrorContains(t, r.Do(task.Command{Op: task.Retry, IDs: []uint64{2}}).Err, "does not wait for a retry")
			require.ErrorContains(t, r.Do(task.Command{Op: task.Retry, IDs: []uint64{3}}).Err, "there is no task 3")
			time.Sleep(5 * time.Second)
			synctest.Wait()
			where := ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{1}}).Wheres[0]
			require.Equal(t, task.Blocking{By: task.ByRetry, Tasks: 1, Until: begin.Add(time.Second + time.Hour)}, *where.Blocking)
			require.Equal(t, []uint64{1}, ask(t, r, task.Command{Op: task.Retry, IDs: []uint64{1}}).IDs)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			where = ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{1}}).Wheres[0]
			require.Equal(t, task.Exit, where.Outcome)
			require.Equal(t, []uint64{3}, ask(t, r, task.Command{Op: task.Retry, IDs: []uint64{1}}).IDs, "it has failed, so it is a new task")
			require.Error(t, r.Do(task.Command{Op: task.Retry, IDs: []uint64{1}}).Err)
			require.Error(t, r.Do(task.Command{Op: task.Retry, IDs: []uint64{2}}).Err)
			ask(t, r, task.Command{Op: task.Rest})
		})
		require.Equal(t, map[uint64][]int{1: {1, 2}, 2: {1}, 3: {3}}, attempts)
		require.EqualValues(t, 2, end.Stats.Of(task.OK))
		require.Less(t, time.Since(begin), time.Minute)
	})
}

func TestCancelByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &seen{}
		src := &tasks{n: 40, change: func(t *task.Task) { t.Key = fmt.Sprint(t.ID % 4) }}
		end := during(t, config(3), src, &fake{}, nil, sink, func(r *Run) {
			require.Len(t, ask(t, r, task.Command{Op: task.Cancel, Key: "1"}).IDs, 10)
			require.ErrorContains(t, r.Do(task.Command{Op: task.Cancel, Key: "9"}).Err, `no task of key "9"`)
			reply := r.Do(task.Command{Op: task.Cancel, IDs: []uint64{99, 2, 6}})
			require.ErrorContains(t, reply.Err, "there is no task 99")
			require.Equal(t, []uint64{2, 6}, reply.IDs)
		})
		require.EqualValues(t, 12, end.Stats.Of(task.Cancelled))
		require.EqualValues(t, 28, end.Stats.Of(task.OK))
	})
}

func TestRestRunsWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, cfg := &tasks{n: 1000}, config(2)
		end := during(t, cfg, src, &fake{}, nil, &seen{}, func(r *Run) {
			ask(t, r, task.Command{Op: task.Rest})
			ask(t, r, task.Command{Op: task.Rest})
			require.Equal(t, task.Rests, look(t, r).State)
			ask(t, r, task.Command{Op: task.Pause})
			require.Equal(t, task.Paused, look(t, r).State)
			ask(t, r, task.Command{Op: task.Resize, N: 50})
			ask(t, r, task.Command{Op: task.Resume})
		})
		require.Equal(t, Told, end.Reason)
		require.False(t, end.Stats.InputEnd)
		require.InDelta(t, cfg.Pool.Buffer, end.Stats.Of(task.OK), 3)
		require.Equal(t, end.Stats.Admitted, end.Stats.Of(task.OK))
	})
}

// TestWhatIsLegal tries each command in each state.
func TestWhatIsLegal(t *testing.T) {
	reach := map[task.State][]task.Op{
		task.Going: nil, task.Paused: {task.Pause}, task.Rests: {task.Rest},
		task.Drains: {task.Drain}, task.Stops: {task.Drain, task.Stop},
	}
	for state, ops := range reach {
		for op, in := range legal {
			synctest.Test(t, func(t *testing.T) {
				exec := &fake{grace: time.Minute}
				during(t, config(1), &tasks{n: 1000}, exec, nil, &seen{}, func(r *Run) {
					for _, op := range ops {
						ask(t, r, task.Command{Op: op})
					}
					require.Equal(t, state, look(t, r).State)
					cmd := task.Command{Op: op, N: 1}
					if op == task.Cancel {
						cmd.IDs = []uint64{1}
					}
					err := r.Do(cmd).Err
					require.Equal(t, in[state], err == nil, "%v in %v: %v", op, state, err)
					if err != nil {
						require.EqualError(t, err, reasons[state])
					}
					cmd.Signal = 2
					require.NoError(t, r.Do(cmd).Err, "a signal is always obeyed")
					ask(t, r, task.Command{Op: task.Kill})
				})
			})
		}
	}
}

// The man page has the table of what is legal.
func TestManPageHasTheStates(t *testing.T) {
	page, err := os.ReadFile("../man/crew.1")
	require.NoError(t, err)
	ops := map[string]task.Op{
		"pause": task.Pause, "resume": task.Resume, "resize": task.Resize, "cancel": task.Cancel, "retry": task.Retry,
		"drain": task.Drain, "drain --rest": task.Rest, "stop": task.Stop, "add": task.Add,
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
// was accepted has one outcome, and tasks of a key run in order.
func TestSteeringKeepsTheBooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			src, sink, cfg := make(fed), &seen{}, feed(rapid.IntRange(1, 4).Draw(rt, "workers"))
			defer close(src)
			keyed := rapid.Bool().Draw(rt, "keyed")
			if keyed {
				cfg.Pool.Policy = policy("keyed")
			} else if rapid.Bool().Draw(rt, "limited") {
				cfg.Pool.PerKey = 1
			}
			cfg.Retry = Retry{Max: 2, Delay: time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 0.5 }}
			var mu sync.Mutex
			order := map[string][]uint64{}
			exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				order[a.Task.Key] = append(order[a.Task.Key], a.Task.ID)
				if (a.Task.ID+uint64(a.Number))%3 == 0 {
					return time.Second, task.Exit
				}
				return time.Duration(a.Task.ID%5) * time.Second, task.OK
			}}
			var last, accepted uint64
			id := func() uint64 { return rapid.Uint64Range(1, max(last, 1)).Draw(rt, "id") }
			during(t, cfg, src, exec, nil, sink, func(r *Run) {
				for range rapid.IntRange(1, 60).Draw(rt, "steps") {
					switch rapid.IntRange(0, 9).Draw(rt, "step") {
					case 0, 1, 2, 3:
						last++
						tk := &task.Task{ID: last, Key: string(rune('a' + last%3)), Argv: []string{"x"}}
						if last > 1 && !keyed && rapid.Bool().Draw(rt, "after") {
							tk.After = []uint64{rapid.Uint64Range(1, last-1).Draw(rt, "first")}
						}
						ask(t, r, task.Command{Op: task.Add, Tasks: []*task.Task{tk}})
						accepted++
					case 4:
						ask(t, r, task.Command{Op: task.Resize, N: rapid.IntRange(1, 8).Draw(rt, "n")})
					case 5:
						ask(t, r, task.Command{Op: task.Pause})
					case 6:
						ask(t, r, task.Command{Op: task.Resume})
					case 7:
						r.Do(task.Command{Op: task.Cancel, IDs: []uint64{id()}})
					case 8:
						reply := r.Do(task.Command{Op: task.Retry, IDs: []uint64{id()}})
						if len(reply.IDs) > 0 && reply.IDs[0] > last {
							last, accepted = reply.IDs[0], accepted+1
						}
					case 9:
						where := ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{id()}}).Wheres[0]
						require.Equal(t, last > 0, where.Known)
						look(t, r)
					}
					time.Sleep(time.Duration(rapid.IntRange(0, 2).Draw(rt, "pause")) * time.Second)
					synctest.Wait()
				}
				ask(t, r, task.Command{Op: task.Resume})
				ask(t, r, task.Command{Op: cmp.Or(task.Op(rapid.IntRange(0, 2).Draw(rt, "end")), task.Rest)})
			})
			require.Len(t, sink.finished, int(accepted))
			require.EqualValues(t, accepted, sink.stats.Finished())
			for key, ids := range order {
				if keyed || cfg.Pool.PerKey == 1 && !keyed && len(ids) < 2 {
					require.True(t, slices.IsSorted(ids), "tasks of key %s ran in the order %v", key, ids)
				}
			}
		})
	})
}
