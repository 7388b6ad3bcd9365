package runner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
	"crew/sched"
)

// remote is a configuration without slots of its own.
func remote(name string) core.Config {
	cfg := config(0)
	cfg.Pool.Remote, cfg.Pool.Policy = true, policy(name)
	cfg.Limit.Timeout = time.Millisecond
	return cfg
}

// far is an Executor on other hosts. An attempt of a host that dies is lost.
type far struct {
	fake
	mu    sync.Mutex
	gone  map[string]chan struct{}
	times map[uint64][]string // by task: where its attempts were
}

func (f *far) host(name string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil {
		f.gone = map[string]chan struct{}{}
	}
	if f.gone[name] == nil {
		f.gone[name] = make(chan struct{})
	}
	return f.gone[name]
}

func newFar(do func(task.Attempt) (time.Duration, task.Outcome)) *far {
	f := &far{times: map[uint64][]string{}}
	f.do = func(a task.Attempt) (time.Duration, task.Outcome) {
		gone := f.host(a.Slot.Host)
		f.mu.Lock()
		f.times[a.Task.ID] = append(f.times[a.Task.ID], a.Slot.Host)
		f.mu.Unlock()
		took, o := time.Second, task.OK
		if do != nil {
			took, o = do(a)
		}
		end := time.After(took)
		select {
		case <-end:
			return 0, o
		case <-gone:
			return 0, task.Lost
		}
	}
	return f
}

func TestARunWithoutWorkersWaitsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []string
		sink := &seen{fail: func(e task.Event) error {
			if e.Kind == task.Blocked {
				why = append(why, "")
				if e.Blocking != nil {
					why[len(why)-1] = e.Blocking.Text(e.At)
				}
			}
			return nil
		}}
		begin := time.Now()
		end := during(t, remote("fifo"), &tasks{n: 500}, newFar(nil), nil, sink, func(r *Run) {
			time.Sleep(time.Hour)
			require.Equal(t, "input waits: 64 tasks wait for a worker: none is connected", look(t, r).Blocking.Text(time.Now()))
			for _, cmd := range []task.Command{{Op: task.Resize, N: 4}, {Op: task.Grow, N: 1}} {
				require.ErrorContains(t, r.Do(cmd).Err, "crew worker")
			}
			web := task.Slot{Host: "web\t1", Cap: 1}
			require.Equal(t, []int{1, 2, 3, 4}, ask(t, r, task.Command{Op: task.Join, N: 4, Slot: web}).Slots)
			require.Equal(t, "web_1", look(t, r).Slots[3].Host)
			require.Equal(t, 64, look(t, r).Buffer)
			time.Sleep(1500 * time.Millisecond)
			for id := range 4 {
				ask(t, r, task.Command{Op: task.Leave, N: id + 1})
			}
			require.Len(t, look(t, r).Running, 4, "what runs there may finish")
			time.Sleep(time.Hour)
			require.Empty(t, look(t, r).Running)
			require.Len(t, ask(t, r, task.Command{Op: task.Join, N: 200, Slot: web}).Slots, 200)
			require.Equal(t, 400, look(t, r).Buffer, "enough for every worker")
			synctest.Wait()
			require.Len(t, look(t, r).Running, 200)
		})
		require.EqualValues(t, 500, end.Stats.Of(task.OK), "the timeout is the executor's affair")
		require.Less(t, time.Since(begin), 2*time.Hour+10*time.Second)
		const waits = " tasks wait for a worker: none is connected"
		require.Equal(t, []string{"input waits: 64" + waits, "", "input waits: 56" + waits, ""}, why)
	})
}

// A lost attempt is made again at once, whatever --retries and --retry-on say, and in
// place of the lost one.
func TestLostAttemptsAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, sink := newFar(nil), &seen{}
		cfg := remote("fifo")
		cfg.Retry = core.Retry{Max: 1, Delay: time.Minute, MaxDelay: time.Minute, Jitter: func() float64 { return 1 }, On: func(r *task.Result) bool {
			require.NotEqual(t, task.Lost, r.Outcome)
			return false
		}}
		cfg.Order = core.Order{Keep: true, Window: 100}
		begin := time.Now()
		end := during(t, cfg, &tasks{n: 40}, exec, nil, sink, func(r *Run) {
			web1 := ask(t, r, task.Command{Op: task.Join, N: 2, Slot: task.Slot{Host: "web1"}}).Slots
			ask(t, r, task.Command{Op: task.Join, N: 2, Slot: task.Slot{Host: "web2"}})
			time.Sleep(2500 * time.Millisecond)
			for _, id := range web1 {
				ask(t, r, task.Command{Op: task.Leave, N: id})
			}
			close(exec.host("web1"))
		})
		require.EqualValues(t, 40, end.Stats.Of(task.OK))
		require.EqualValues(t, 2, end.Stats.Lost)
		require.Zero(t, end.Stats.Retried)
		require.Equal(t, 2, sink.retried)
		require.True(t, slices.IsSorted(sink.released))
		require.Equal(t, 18*time.Second, time.Since(begin).Truncate(100*time.Millisecond), "ten tasks in 3 s, then two a second")
		moved := 0
		for _, hosts := range exec.times {
			if len(hosts) > 1 {
				moved++
				require.Equal(t, []string{"web1", "web2"}, hosts)
			}
		}
		require.Equal(t, 2, moved)
	})
}

// lossy is a run of one task, whose attempts are lost unless do says otherwise.
func lossy(t *testing.T, retry core.Retry, unbegun int, look func(*Run), do func(n int) task.Outcome) (*task.Result, core.Ending) {
	t.Helper()
	cfg := remote("fifo")
	cfg.Retry = retry
	var last *task.Result
	retried := 0
	sink := &seen{fail: func(e task.Event) error {
		switch {
		case e.Kind == task.Finished:
			last = e.Result
		case e.Kind == task.Retried:
			require.Equal(t, retried, e.Retries, "so many attempts came before")
			if !e.Result.Unbegun {
				retried++
			}
		}
		return nil
	}}
	exec := &handing{unbegun: unbegun}
	exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
		if do == nil {
			return time.Second, task.Lost
		}
		return time.Second, do(a.Number)
	}
	end := during(t, cfg, &tasks{n: 1}, exec, nil, sink, func(r *Run) {
		ask(t, r, task.Command{Op: task.Join, Slot: task.Slot{Host: "web1"}})
		if look != nil {
			look(r)
		}
	})
	return last, end
}

// handing is a fake that hands back the first attempts.
type handing struct {
	fake
	unbegun int
}

func (h *handing) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := h.fake.Run(ctx, a)
	r.Unbegun = a.Number <= h.unbegun
	return r
}

func TestATaskThatIsLostAgainAndAgainIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, end := lossy(t, core.Retry{}, 0, nil, nil)
		require.Equal(t, task.Lost, r.Outcome)
		require.Equal(t, poison, r.Attempt)
		require.Len(t, r.Before, poison-1)
		require.Equal(t, "lost with web1 after 1s", r.Verdict())
		require.EqualValues(t, 1, end.Stats.Failed())
		require.EqualValues(t, poison, end.Stats.Lost)

		// An attempt that had not begun does not count, but a task that nobody takes waits
		// longer and longer.
		begin := time.Now()
		r, end = lossy(t, core.Retry{}, 20, nil, nil)
		require.Equal(t, 25*time.Second+(45+10*10)*returnedWait, time.Since(begin).Truncate(returnedWait))
		require.Equal(t, 20+poison, r.Attempt)
		require.EqualValues(t, poison, end.Stats.Lost)

		// Neither does a loss count as a failure, nor a failure as a loss.
		once := core.Retry{Max: 1, Jitter: func() float64 { return 0 }}
		r, end = lossy(t, once, 0, nil, func(n int) task.Outcome {
			if n == 3 || n == 6 {
				return task.Exit
			}
			return task.Lost
		})
		require.Equal(t, task.Exit, r.Outcome)
		require.Equal(t, 6, r.Attempt)
		require.EqualValues(t, 1, end.Stats.Retried)
		require.EqualValues(t, 4, end.Stats.Lost)
	})
}

// What becomes of an attempt that is lost while the run ends or its task is cancelled.
func TestLostAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(cmd task.Command) func(*Run) {
			return func(r *Run) {
				time.Sleep(500 * time.Millisecond)
				ask(t, r, cmd)
			}
		}
		r, end := lossy(t, core.Retry{}, 0, do(task.Command{Op: task.Drain}), nil)
		require.Equal(t, task.NotRun, r.Outcome)
		require.Len(t, r.Before, 1)
		require.EqualValues(t, 1, end.Stats.Lost)
	})
}

// Tasks of a key never overlap and stay in order while hosts come, go and die.
func TestKeysStayInOrderWhenHostsDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ended, busy := map[string]uint64{}, map[string]bool{}
		exec := newFar(nil)
		run := exec.do
		exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			mu.Lock()
			require.False(t, busy[a.Task.Key])
			require.Less(t, ended[a.Task.Key], a.Task.ID)
			busy[a.Task.Key] = true
			mu.Unlock()
			took, o := run(a)
			mu.Lock()
			if busy[a.Task.Key] = false; o == task.OK {
				ended[a.Task.Key] = a.Task.ID
			}
			mu.Unlock()
			return took, o
		}
		cfg := remote("keyed")
		cfg.Pool.Buffer = 1000
		src := &tasks{n: 2000, change: func(t *task.Task) { t.Key = string(rune('a' + t.ID%40)) }}
		end := during(t, cfg, src, exec, nil, &seen{}, func(r *Run) {
			join := func(host string) []int {
				return ask(t, r, task.Command{Op: task.Join, N: 4, Slot: task.Slot{Host: host}}).Slots
			}
			leave := func(slots []int) {
				for _, id := range slots {
					ask(t, r, task.Command{Op: task.Leave, N: id})
				}
			}
			a, _ := join("a"), join("b")
			time.Sleep(10500 * time.Millisecond)
			c := join("c")
			time.Sleep(10 * time.Second)
			leave(a)
			time.Sleep(200 * time.Millisecond)
			close(exec.host("a"))
			time.Sleep(10 * time.Second)
			leave(c)
			close(exec.host("c"))
		})
		require.EqualValues(t, 2000, end.Stats.Of(task.OK))
		require.Positive(t, end.Stats.Lost)
	})
}

func TestTopicsRunOnWorkersWithTheirLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := newFar(nil)
		cfg := remote("fifo")
		cfg.Pool.Policy = policy("topic", sched.Topics{List: []sched.Topic{{Key: sched.Hash("gpu"), Workers: 2}}, Rest: 2})
		src := &tasks{n: 60, change: func(t *task.Task) { t.Key = []string{"gpu", "mail", "db"}[t.ID%3] }}
		end := during(t, cfg, src, exec, nil, &seen{}, func(r *Run) {
			gpu := ask(t, r, task.Command{Op: task.Join, N: 2, Slot: task.Slot{Host: "gpu1", Labels: []string{"big", "gpu"}}}).Slots
			ask(t, r, task.Command{Op: task.Join, N: 2, Slot: task.Slot{Host: "web1"}})
			time.Sleep(3500 * time.Millisecond)
			for _, id := range gpu {
				ask(t, r, task.Command{Op: task.Leave, N: id})
			}
			time.Sleep(time.Hour)
			require.Equal(t, "13 tasks of key gpu wait for a worker with that label: none is connected", look(t, r).Blocking.Text(time.Now()))
			ask(t, r, task.Command{Op: task.Join, N: 1, Slot: task.Slot{Host: "gpu2", Labels: []string{"gpu"}}})
		})
		require.EqualValues(t, 60, end.Stats.Of(task.OK))
		for id, hosts := range exec.times {
			if id%3 == 0 {
				require.Contains(t, []string{"gpu1", "gpu2"}, hosts[0])
			}
		}
	})
}
