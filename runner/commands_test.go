package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
)

// during starts a run and calls look in the middle of it. It returns when the run
// is over.
func during(t *testing.T, cfg core.Config, src Source, exec Executor, rec Recorder, sink Sink, look func(*Run)) core.Ending {
	t.Helper()
	r, err := New(cfg, src, exec, rec, []Sink{sink})
	require.NoError(t, err)
	over := make(chan core.Ending)
	go func() { over <- r.Wait() }()
	synctest.Wait()
	look(r)
	return <-over
}

func ask(t *testing.T, r *Run, cmd task.Command) task.Reply {
	t.Helper()
	reply := r.Do(cmd)
	require.NoError(t, reply.Err)
	return reply
}

func look(t *testing.T, r *Run) *task.Snapshot {
	t.Helper()
	return ask(t, r, task.Command{Op: task.Look}).Snapshot
}

// hosts is an Executor that remembers in which slots of which host tasks ran.
type hosts struct {
	fake
	mu   sync.Mutex
	ran  map[string]map[int]int // host, slot, attempts
	peak map[int]int            // by slot
}

func newHosts() *hosts {
	h := &hosts{ran: map[string]map[int]int{}, peak: map[int]int{}}
	busy := map[int]int{}
	h.do = func(a task.Attempt) (time.Duration, task.Outcome) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ran[a.Slot.Host] == nil {
			h.ran[a.Slot.Host] = map[int]int{}
		}
		h.ran[a.Slot.Host][a.Slot.ID]++
		busy[a.Slot.ID]++
		h.peak[a.Slot.ID] = max(h.peak[a.Slot.ID], busy[a.Slot.ID])
		time.AfterFunc(time.Second-1, func() { h.mu.Lock(); busy[a.Slot.ID]--; h.mu.Unlock() })
		return time.Second, task.OK
	}
	return h
}

func TestSlotsOfOtherHostsJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := newHosts()
		end := during(t, config(1), &tasks{n: 100}, exec, nil, &seen{}, func(r *Run) {
			far := task.Slot{Host: "far", Cap: 3}
			require.Equal(t, []int{2}, ask(t, r, task.Command{Op: task.Join, Slot: far}).Slots)
			require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 2, Host: "far", Cap: 3}}, look(t, r).Slots)
			require.Len(t, look(t, r).Running, 4, "it takes tasks at once, as many as it has room for")
			time.Sleep(5500 * time.Millisecond)
			ask(t, r, task.Command{Op: task.Leave, N: 2})
			require.Len(t, look(t, r).Running, 4, "what runs there may finish")
			ask(t, r, task.Command{Op: task.Resize, N: 2})
			require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 3, Cap: 1}}, look(t, r).Slots,
				"a number is not given to another host while something runs under it")
			ask(t, r, task.Command{Op: task.Join, Slot: task.Slot{Host: "far"}})
			ask(t, r, task.Command{Op: task.Grow, N: -9})
			require.Equal(t, []task.Slot{{ID: 1, Cap: 1}, {ID: 2, Host: "far", Cap: 1}}, look(t, r).Slots,
				"one worker of this machine's own stays, and others are not counted")
			for _, none := range []int{-1, 0, 3, 99} {
				require.ErrorContains(t, r.Do(task.Command{Op: task.Leave, N: none}).Err, "there is no worker")
			}
		})
		require.EqualValues(t, 100, end.Stats.Of(task.OK))
		require.Equal(t, 2, end.Stats.Slots)
		require.Equal(t, 3, exec.peak[2])
		require.Equal(t, 1, exec.peak[1])
	})
}

// TestALeavingHostMovesNoOtherKeys: keys stay with their slots when another host
// comes and goes, and tasks of a key stay in order.
func TestALeavingHostMovesNoOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(4)
		cfg.Pool.Policy, cfg.Pool.Buffer = policy("keyed"), 1000
		where := map[string][]int{}
		var mu sync.Mutex
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			where[a.Task.Key] = append(where[a.Task.Key], a.Slot.ID)
			return time.Second, task.OK
		}}
		src := &tasks{n: 400, change: func(t *task.Task) { t.Key = string(rune('a' + t.ID%20)) }}
		during(t, cfg, src, exec, nil, &seen{}, func(r *Run) {
			time.Sleep(10 * time.Second)
			id := ask(t, r, task.Command{Op: task.Join, Slot: task.Slot{Host: "far"}}).Slots[0]
			time.Sleep(10 * time.Second)
			ask(t, r, task.Command{Op: task.Leave, N: id})
		})
		stayed := 0
		for _, ids := range where {
			own := slices.Compact(slices.DeleteFunc(ids, func(id int) bool { return id == 5 }))
			require.Len(t, own, 1, "a key that went to the other host came back to its slot")
			if len(ids) == 20 {
				stayed++
			}
		}
		require.Greater(t, stayed, 10)
	})
}

func TestASnapshotSaysWhatWaitsForWhat(t *testing.T) {
	groups := func(s *task.Snapshot) map[task.Cause]int {
		by := map[task.Cause]int{}
		for _, w := range s.Waiting {
			by[w.By] += w.Tasks
		}
		return by
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Pool.PerKey, cfg.Pool.Buffer = 1, 7
		cfg.Order = core.Order{Keep: true, Window: 1000}
		cfg.Retry = core.Retry{Max: 9, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
		begin := time.Now()
		exec := &fake{grace: time.Second, do: func(a task.Attempt) (time.Duration, task.Outcome) { // so that it does not end at once
			switch a.Task.Key {
			case "bad":
				return time.Second, task.Exit
			case "hot":
				return time.Hour, task.OK
			}
			return time.Second, task.OK
		}}
		src := &tasks{n: 100, change: func(t *task.Task) {
			t.Key = "cold" + t.Records[0][0]
			if i := int(t.ID) - 1; i < 6 {
				t.Key = [...]string{"bad", "hot", "hot", "hot", "cold", "cold"}[i]
			}
		}}
		during(t, cfg, src, exec, nil, &seen{}, func(r *Run) {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			s := look(t, r)
			require.Equal(t, task.Going, s.State)
			require.Equal(t, "running", s.State.String())
			require.Equal(t, time.Now(), s.At)
			require.Len(t, s.Running, 2)
			require.EqualValues(t, 2, s.Running[1].Task.ID)
			require.Equal(t, task.Running{Task: s.Running[1].Task, Slot: 2, Attempt: 1, Since: begin}, s.Running[1])
			require.Equal(t, s.At, s.Running[0].Since, "it has just begun")
			by := groups(s)
			require.InDelta(t, 4, by[task.BySlots], 3, "at most as many as are read ahead")
			delete(by, task.BySlots)
			require.Equal(t, map[task.Cause]int{task.ByRetry: 1, task.ByLimit: 2, task.ByOrder: int(s.Stats.Finished())}, by)
			require.Equal(t, task.BySlots, s.Blocking.By)
			for _, w := range s.Waiting {
				switch w.By {
				case task.ByLimit:
					require.Equal(t, task.Blocking{By: task.ByLimit, Tasks: 2, Key: "hot", Limit: 1}, w)
				case task.ByRetry:
					require.Equal(t, begin.Add(time.Second+time.Hour), w.Until)
				case task.ByOrder:
					require.EqualValues(t, 1, w.ID, "the first one is still retried")
				}
			}
			ask(t, r, task.Command{Op: task.Pause})
			require.Equal(t, task.Paused, look(t, r).State)
			require.Equal(t, task.ByPause, look(t, r).Blocking.By)
			ask(t, r, task.Command{Op: task.Resume})
			ask(t, r, task.Command{Op: task.Drain})
			require.Equal(t, task.Drains, look(t, r).State)
			require.Equal(t, task.ByEnd, look(t, r).Blocking.By)
			ask(t, r, task.Command{Op: task.Stop})
			require.Equal(t, task.Stops, look(t, r).State)
		})
	})
}

func TestASnapshotNamesTheWorkerOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Pool.Policy = policy("keyed")
		src := &tasks{n: 10, change: func(t *task.Task) { t.Key = string(rune('a' + t.ID%2)) }}
		during(t, cfg, src, &fake{}, nil, &seen{}, func(r *Run) {
			s := look(t, r)
			slot := map[string]int{}
			for _, a := range s.Running {
				slot[a.Task.Key] = a.Slot
			}
			require.Equal(t, []task.Blocking{
				{By: task.ByKey, Tasks: 4, Key: "a", Slot: slot["a"]}, {By: task.ByKey, Tasks: 4, Key: "b", Slot: slot["b"]},
			}, s.Waiting)
			require.Equal(t, task.Blocking{By: task.ByKey, Tasks: 1, Key: "b", Slot: slot["b"], ID: 1},
				*ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{9}}).Wheres[0].Blocking)
		})
	})
}

func TestNothingIsAskedOfARunThatIsOver(t *testing.T) {
	r, err := New(config(1), &tasks{}, &fake{}, nil, nil)
	require.NoError(t, err)
	r.Wait()
	require.Error(t, r.Do(task.Command{Op: task.Look}).Err)
	require.Error(t, r.Do(task.Command{Op: task.Cancel, IDs: []uint64{1}}).Err)
}

// TestNoTimePassesWhileSuspended: neither timeouts, nor the grace before a kill,
// nor waits for a retry.
func TestNoTimePassesWhileSuspended(t *testing.T) {
	suspend := func(t *testing.T, r *Run) {
		ask(t, r, task.Command{Op: task.Suspend})
		ask(t, r, task.Command{Op: task.Suspend})
		time.Sleep(time.Hour)
		synctest.Wait()
		ask(t, r, task.Command{Op: task.Continue})
		ask(t, r, task.Command{Op: task.Continue})
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := config(1)
		cfg.Limit.Timeout = 10 * time.Second
		exec := &fake{grace: 1000 * time.Hour, do: func(task.Attempt) (time.Duration, task.Outcome) { return 100 * time.Hour, task.OK }}
		begin, sink := time.Now(), &seen{}
		during(t, cfg, &tasks{n: 1}, exec, nil, sink, func(r *Run) {
			time.Sleep(9 * time.Second)
			suspend(t, r)
			time.Sleep(5 * time.Second) // its timeout has passed: it is being ended
			suspend(t, r)
		})
		require.Equal(t, task.Timeout, sink.finished[1])
		require.Equal(t, 2*time.Hour+cfg.Limit.Timeout+cfg.Limit.KillAfter, time.Since(begin))
	})
	synctest.Test(t, func(t *testing.T) {
		cfg := config(1)
		cfg.Retry = core.Retry{Max: 1, Delay: 10 * time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 1 }}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Second, [...]task.Outcome{1: task.Exit, 2: task.OK}[a.Number]
		}}
		begin, sink := time.Now(), &seen{}
		during(t, cfg, &tasks{n: 1}, exec, nil, sink, func(r *Run) {
			time.Sleep(2 * time.Second)
			suspend(t, r)
		})
		require.Equal(t, time.Hour+12*time.Second, time.Since(begin))
		require.Equal(t, 12*time.Second, sink.stats.Elapsed(sink.stats.Last))
	})
	// What is noticed only after SIGCONT, but before the command to continue, happened
	// when the clock was stopped.
	synctest.Test(t, func(t *testing.T) {
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			return [...]time.Duration{1: 10 * time.Second, 2: 10 * time.Hour}[a.Task.ID], task.OK
		}}
		begin, sink := time.Now(), &seen{}
		during(t, config(2), &tasks{n: 2}, exec, nil, sink, func(r *Run) {
			time.Sleep(2 * time.Second)
			ask(t, r, task.Command{Op: task.Suspend})
			time.Sleep(time.Hour)
			synctest.Wait()
			ask(t, r, task.Command{Op: task.Continue})
		})
		require.Equal(t, task.OK, sink.finished[1])
		require.Equal(t, begin.Add(2*time.Second), sink.at[1])
	})
	synctest.Test(t, func(t *testing.T) {
		begin, exec := time.Now(), stuck{end: make(chan struct{})}
		end := during(t, config(1), &tasks{n: 2}, exec, nil, &seen{}, func(r *Run) {
			ask(t, r, task.Command{Op: task.Stop})
			suspend(t, r)
		})
		require.Equal(t, 1, end.Abandoned)
		require.Equal(t, time.Hour+5*time.Second+margin, time.Since(begin))
		close(exec.end)
	})
}

// TestTasksThatWaitAsideHoldNobodyBack: what waits for a retry does not fill the
// read-ahead, up to a bound that is told.
func TestTasksThatWaitAsideHoldNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(4)
		cfg.Retry = core.Retry{Max: 1, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID <= 1000 && a.Number == 1 {
				return time.Millisecond, task.Exit
			}
			return time.Millisecond, task.OK
		}}
		during(t, cfg, &tasks{n: 3000}, exec, nil, &seen{}, func(r *Run) {
			time.Sleep(time.Minute)
			require.EqualValues(t, 2000, look(t, r).Stats.Of(task.OK))
		})
	})
	for name, change := range map[string]func(*task.Task){
		"tasks": nil,
		"bytes": func(t *task.Task) { t.Stdin = make([]byte, 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(4)
				cfg.Retry = core.Retry{Max: 1, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
				exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
					return time.Millisecond, [...]task.Outcome{1: task.Exit, 2: task.OK}[a.Number]
				}}
				most, over, n := asideTasks, 4000, asideTasks+4000
				if change != nil {
					most, over, n = asideBytes>>20, 2*cfg.Pool.Buffer, 500
				}
				sink := &seen{}
				end := during(t, cfg, &tasks{n: n, change: change}, exec, nil, sink, func(r *Run) {
					time.Sleep(time.Minute)
					s := look(t, r)
					require.InDelta(t, most, s.Stats.Admitted, float64(over))
					sink.mu.Lock()
					require.Equal(t, 1, count(sink.kinds, task.Notice))
					sink.mu.Unlock()
				})
				require.EqualValues(t, n, end.Stats.Of(task.OK))
			})
		})
	}
}

func count[T comparable](list []T, want T) (n int) {
	for _, have := range list {
		if have == want {
			n++
		}
	}
	return n
}

// TestAKillThatDoesNotHelpIsRepeated: an attempt may start something in the
// moment in which its processes are killed.
func TestAKillThatDoesNotHelpIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(1)
		cfg.Limit.Timeout = time.Second
		exec := &hardy{end: make(chan struct{})}
		exec.kills.Store(3)
		begin, sink := time.Now(), &seen{}
		_, err := run(cfg, &tasks{n: 1}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.Equal(t, task.Timeout, sink.finished[1])
		require.Equal(t, time.Second+cfg.Limit.KillAfter+2*margin, time.Since(begin))
	})
}

// hardy is an Executor whose one attempt ends only when it is killed often enough.
type hardy struct {
	instant
	end   chan struct{}
	kills atomic.Int32 // still to come
}

func (h *hardy) Run(_ context.Context, a task.Attempt) *task.Result {
	<-h.end
	return &task.Result{Task: a.Task, Outcome: task.Timeout}
}

func (h *hardy) Kill(uint64, int) {
	if h.kills.Add(-1) == 0 {
		close(h.end)
	}
}

// records is a Recorder that checks what it is told, and when.
type records struct {
	t    *testing.T
	exec *fake
	sink *seen

	mu      sync.Mutex
	open    map[uint64]int // the attempt that was started
	ended   map[uint64][]int
	finals  map[uint64]task.Outcome
	between func() // called while an end is recorded
}

func (r *records) Started(a task.Attempt, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Zero(r.t, r.open[a.Task.ID])
	r.open[a.Task.ID] = a.Number
}

func (r *records) Ended(a task.Attempt, res *task.Result, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := a.Task.ID
	require.Equal(r.t, r.open[id], a.Number, "zero for a task that cannot be run")
	r.open[id] = 0
	r.ended[id] = append(r.ended[id], a.Number)
	r.sink.mu.Lock()
	_, shown := r.sink.finished[id]
	r.sink.mu.Unlock()
	require.False(r.t, shown, "no sink has seen it before it is on record")
	if r.between != nil {
		r.mu.Unlock()
		r.between()
		r.mu.Lock()
	}
	if final {
		require.Zero(r.t, r.finals[id])
		r.finals[id] = res.Outcome
		known := 0
		if a.Task.Known != nil {
			known = len(a.Task.Known.Before)
		}
		require.Len(r.t, res.Before, known+len(r.ended[id])-1)
	}
}

func (*records) Idle() {}

func TestTheRecorderIsToldBeforeAnybodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.Retry = core.Retry{Max: 2, Jitter: func() float64 { return 1 }}
		sink, exec := &seen{}, &fake{}
		exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID%5 == 0 && a.Number < 3 || a.Task.ID%7 == 0 {
				return time.Millisecond, task.Exit
			}
			return time.Millisecond, task.OK
		}
		rec := &records{
			t: t, exec: exec, sink: sink, open: map[uint64]int{}, ended: map[uint64][]int{}, finals: map[uint64]task.Outcome{},
			between: func() { time.Sleep(time.Second) },
		}
		src := &tasks{n: 50, change: func(t *task.Task) {
			if t.ID == 13 {
				t.Err = errors.New("too long")
			}
			if t.ID == 21 { // two attempts of an earlier run failed, one more was interrupted
				t.Attempts, t.Failures = 2, 2
			}
			if t.ID == 22 { // one has failed, and this one passes
				t.Attempts, t.Failures, t.Known = 1, 1, &task.Attempts{Before: []*task.Result{{Attempt: 1, Outcome: task.Exit}}}
			}
		}}
		r, err := New(cfg, src, exec, rec, []Sink{sink})
		require.NoError(t, err)
		end := r.Wait()
		require.EqualValues(t, 9+1, end.Stats.Flaky)
		require.Len(t, rec.finals, 50)
		require.Equal(t, rec.finals, sink.finished)
		require.Equal(t, []int{1, 2, 3}, rec.ended[5])
		require.Equal(t, []int{1, 2, 3}, rec.ended[7])
		require.Equal(t, []int{0}, rec.ended[13])
		require.Equal(t, []int{3}, rec.ended[21], "it goes on with its numbers, and with the retries that are left")
		require.EqualValues(t, 7, end.Stats.Of(task.Exit))
		require.Less(t, exec.most, 4, "the slot is held until then")
	})
}

// TestOnlyOneAttemptOfASlotIsInDoubt: a slot starts nothing while the end of its
// last attempt is being recorded.
func TestOnlyOneAttemptOfASlotIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, exec := &seen{}, &fake{}
		rec := &records{t: t, exec: exec, sink: sink, open: map[uint64]int{}, ended: map[uint64][]int{}, finals: map[uint64]task.Outcome{}}
		rec.between = func() {
			n := len(exec.begun())
			time.Sleep(time.Minute)
			require.Len(t, exec.begun(), n)
		}
		r, err := New(config(1), &tasks{n: 5}, exec, rec, []Sink{sink})
		require.NoError(t, err)
		r.Wait()
		require.Len(t, rec.finals, 5)
	})
}

// TestARecordThatIsAwaitedTooLong: a run that was told to end gives up a recorder
// that a full pipe or a slow disk holds, and what that says later counts no more.
func TestARecordThatIsAwaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, exec := &seen{}, &fake{}
		hold := make(chan struct{})
		rec := &records{t: t, exec: exec, sink: &seen{}, open: map[uint64]int{}, ended: map[uint64][]int{}, finals: map[uint64]task.Outcome{}}
		rec.between = func() { <-hold }
		cfg := config(2)
		cfg.Retry = core.Retry{Max: 1, Jitter: func() float64 { return 1 }}
		exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Second, map[uint64]task.Outcome{1: task.OK, 2: task.Exit}[a.Task.ID]
		}
		end := during(t, cfg, &tasks{n: 2}, exec, rec, sink, func(r *Run) {
			time.Sleep(2 * time.Second)
			ask(t, r, task.Command{Op: task.Stop})
		})
		require.Equal(t, map[uint64]task.Outcome{1: task.OK, 2: task.NotRun}, sink.finished, "the second waits for its retry")
		require.Zero(t, end.Abandoned)
		close(hold)
	})
}

// A run fails at a command while tasks may start, and not once it drains.
func TestFailEndsTheRun(t *testing.T) {
	for _, drained := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			why := errors.New("nobody is there")
			exec := newHosts()
			end := during(t, config(1), &tasks{n: 3}, exec, nil, &seen{}, func(r *Run) {
				if drained {
					ask(t, r, task.Command{Op: task.Drain})
				}
				ask(t, r, task.Command{Op: task.Fail, Err: why})
			})
			if drained {
				why = nil
			}
			require.Equal(t, why, end.Err)
			require.Equal(t, int64(1), end.Stats.Of(task.OK), "what runs may finish")
			require.Equal(t, int64(2), end.Stats.Of(task.NotRun))
		})
	}
}
