package core

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// Whatever the policy, no slot is free while something waits at another one that it could run.
func TestNoSlotIsFreeWhileItsWorkWaitsElsewhere(t *testing.T) {
	for _, name := range []string{"fifo", "longest-first", "fair", "least-busy", "round-robin", "keyed"} {
		for seed := range uint64(20) {
			n := rand.New(rand.NewPCG(seed, 1))
			s := simulate(t, sendAhead(name, 1+n.IntN(3)), 200, func(s *sim) {
				s.Pause = time.Duration(n.IntN(3)) * 100 * time.Millisecond
				s.change = func(t *task.Task) { t.Key, t.Cost = string(rune('a'+n.IntN(30))), 1+n.Int64N(5) }
				s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
					return time.Duration(n.IntN(1000)) * time.Millisecond, task.OK
				}
			})
			for i := range 4 {
				s.join(1+n.IntN(3), fmt.Sprint("host", i))
				s.sleep(time.Second)
			}
			for !s.over {
				at, ok := s.next()
				require.True(t, ok)
				s.sleep(at.Sub(s.now))
				for _, a := range s.ahead {
					free := s.core.pool.idle > 0 && s.core.queue.ready.Choice(s.core.entries[a.Task.ID].item).Idle
					require.False(t, free, "%s %d: task %d waits at worker %d", name, seed, a.Task.ID, a.Slot.ID)
				}
			}
			require.EqualValues(t, 200, s.wait().Stats.Of(task.OK))
			require.Len(t, s.about(task.Started), 200)
			for _, id := range s.recalled {
				again := slices.DeleteFunc(slices.Clone(s.recalled), func(o uint64) bool { return o != id })
				require.LessOrEqual(t, len(again), 3, "%s: recalls of a task go on", name)
			}
			if name == "round-robin" {
				require.LessOrEqual(t, len(s.recalled), 40, "only when slots have joined")
			}
		}
	}
}

// The end of an attempt can come before that of the one before it in the slot.
func TestEndsComeInAnyOrder(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 3)
	s.join(1, "a")
	second := s.ahead[0]
	s.ahead = nil
	s.step(func(c *Core) { c.Ended(&task.Result{Task: second.Task, Attempt: 1, Outcome: task.OK}) })
	require.EqualValues(t, 1, s.core.snapshot().Stats.Running)
	require.EqualValues(t, 3, s.wait().Stats.Of(task.OK))
}

// The machine's clock may be set, and the machine may sleep, so it is looked at again
// and again.
func TestUntilIsLookedForAgain(t *testing.T) {
	cfg := config(1)
	cfg.Limit.Until = epoch.Add(time.Hour)
	c := New(cfg, epoch, false)
	wake := func(after time.Duration) time.Duration {
		now := epoch.Add(after)
		return c.Step(now, func(*Core) {}).Wake.Sub(now)
	}
	require.LessOrEqual(t, wake(0), clockLook)
	require.LessOrEqual(t, wake(59*time.Minute+59*time.Second), time.Second)
	wake(time.Hour)
	require.Equal(t, Late, c.Ending().Reason)
}

// A chain of tasks that come one after another ends however long it is, and is cancelled as
// a whole.
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
		s.ask(task.Command{Op: task.Rest})
		require.GreaterOrEqual(t, s.wait().Stats.Of(want), int64(long-1))
	}
}

// TestWhatIsLegal tries each command in each state.
func TestWhatIsLegal(t *testing.T) {
	reach := map[task.State][]task.Op{
		task.Going: nil, task.Paused: {task.Pause}, task.Rests: {task.Rest},
		task.Drains: {task.Drain}, task.Stops: {task.Drain, task.Stop},
	}
	for state, ops := range reach {
		for op, in := range legal {
			s := simulate(t, config(1), 1000, func(s *sim) { s.Grace = time.Minute })
			for _, op := range ops {
				s.ask(task.Command{Op: op})
			}
			require.Equal(t, state, s.core.snapshot().State)
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
		cfg.Retry = Retry{Max: 3, Delay: time.Hour, MaxDelay: time.Hour, Jitter: func() float64 { return 1 }}
		s := simulate(t, cfg, 40, func(s *sim) {
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				if a.Task.ID <= 10 {
					return time.Millisecond, task.Exit
				}
				return time.Hour / 2, task.OK
			}
		})
		s.sleep(time.Minute)
		require.EqualValues(t, 38, s.core.snapshot().Aside+s.core.snapshot().Queued)
		s.ask(task.Command{Op: task.Drain})
		require.Empty(t, s.core.snapshot().Waiting)
		end := s.wait()
		require.EqualValues(t, 2, end.Stats.Of(task.OK))
		require.EqualValues(t, 38, end.Stats.Of(task.NotRun))
	}
}

func TestAutomaticTopicsShareByBacklogAndSpareTheProcessors(t *testing.T) {
	cfg := config(12)
	cfg.Queue.Policy = policy("topic:auto")
	cfg.Pool.Procs, cfg.Queue.Buffer = 2, 200
	most := map[string]int{} // after the first ten seconds
	s := simulate(t, cfg, 1000, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = [...]string{"cpu", "net"}[t.ID%2] }
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if n := 1; s.took() > 10*time.Second {
				for _, r := range s.running {
					if r.Task.Key == a.Task.Key {
						n++
					}
				}
				most[a.Task.Key] = max(most[a.Task.Key], n)
			}
			return time.Second, task.OK
		}
		s.result = func(r *task.Result) {
			if r.Task.Key == "cpu" {
				r.User = 900 * time.Millisecond
			}
		}
	})
	require.EqualValues(t, 1000, s.wait().Stats.Of(task.OK))
	require.Equal(t, 2, most["cpu"], "no more than there are processors")
	require.GreaterOrEqual(t, most["net"], 8, "the rest goes where the backlog is")
}

// TestABusyMachineHidesNoCPUBoundTopic: time spent waiting for a processor counts
// as work.
func TestABusyMachineHidesNoCPUBoundTopic(t *testing.T) {
	start := time.Unix(100, 0)
	result := func(user, delay, took time.Duration) *task.Result {
		return &task.Result{User: user, RunDelay: delay, Start: start, End: start.Add(took)}
	}
	u := newUsages(2)
	u.saw(1, result(30*time.Millisecond, 60*time.Millisecond, 100*time.Millisecond)) // beside busy neighbours
	u.saw(2, result(5*time.Millisecond, 10*time.Millisecond, 100*time.Millisecond))
	most := u.most()
	require.Equal(t, 2, most(1))
	require.Greater(t, most(2), 1000)
	require.Greater(t, most(3), 1000, "nothing is known of it")
}
