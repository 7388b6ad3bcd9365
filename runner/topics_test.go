package runner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// explained is a Sink that keeps why nothing started.
type explained struct {
	seen
	texts []string
}

func (x *explained) Consume(batch []task.Event) error {
	for _, e := range batch {
		if e.Kind == task.Blocked && e.Blocking != nil {
			x.texts = append(x.texts, e.Blocking.Text(e.At))
		}
	}
	return x.seen.Consume(batch)
}

func TestABlockedInputIsExplained(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy string
		perKey int
		slow   bool
		want   string
	}{
		{"a worker", "round-robin", 0, false, "input waits: 1[4-6] tasks wait for worker 1"},
		{"a key of one worker", "keyed", 0, true, "input waits: 1[4-6] tasks of key db1 wait for worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(4)
				cfg.Pool.Policy, cfg.Pool.PerKey, cfg.Pool.Buffer = policy(c.policy), c.perKey, 16
				exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
					if a.Slot.ID == 1 || c.slow {
						return 500 * time.Millisecond, task.OK
					}
					return time.Millisecond, task.OK
				}}
				sink := &explained{}
				src := &tasks{n: 200, change: func(t *task.Task) { t.Key = "db1" }}
				_, err := run(cfg, src, exec, []Sink{sink}, nil)
				require.NoError(t, err)
				require.NotEmpty(t, sink.texts)
				require.Regexp(t, c.want, sink.texts[0])
			})
		})
	}
}

// busy is an Executor whose tasks take a second each and say how much of it
// they were on a processor.
type busy struct {
	instant
	mu   sync.Mutex
	now  map[string]int
	most map[string]int // after the first ten seconds
	from time.Time
}

func (b *busy) Run(_ context.Context, a task.Attempt) *task.Result {
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Start: time.Now(), Outcome: task.OK}
	b.mu.Lock()
	b.now[a.Task.Key]++
	if time.Since(b.from) > 10*time.Second {
		b.most[a.Task.Key] = max(b.most[a.Task.Key], b.now[a.Task.Key])
	}
	b.mu.Unlock()
	time.Sleep(time.Second)
	b.mu.Lock()
	b.now[a.Task.Key]--
	b.mu.Unlock()
	r.End = time.Now()
	if a.Task.Key == "cpu" {
		r.User = 900 * time.Millisecond
	}
	return r
}

func TestAutomaticTopicsShareByBacklogAndSpareTheProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(12)
		cfg.Pool.Policy = policy("topic", sched.Topics{Auto: true})
		cfg.Pool.Procs, cfg.Pool.Buffer = 2, 200
		src := &tasks{n: 1000, change: func(t *task.Task) {
			t.Key = [...]string{"cpu", "net"}[t.ID%2]
		}}
		exec := &busy{now: map[string]int{}, most: map[string]int{}, from: time.Now()}
		end, err := run(cfg, src, exec, []Sink{&seen{}}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 1000, end.Stats.Of(task.OK))
		require.Equal(t, 2, exec.most["cpu"], "no more than there are processors")
		require.GreaterOrEqual(t, exec.most["net"], 8, "the rest goes where the backlog is")
	})
}

func TestARefusedTopicFailsAndOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.Pool.Policy = policy("topic", sched.Topics{List: []sched.Topic{{Key: sched.Hash("mail"), Workers: 2}, {Key: sched.Hash("db"), Workers: 1}}})
		src := &tasks{n: 30, change: func(t *task.Task) { t.Key = [...]string{"mail", "db", "web"}[t.ID%3] }}
		sink := &seen{}
		_, err := run(cfg, src, &fake{}, []Sink{sink}, nil)
		require.NoError(t, err)
		require.Equal(t, 10, sink.count(task.StartFailed))
		require.Equal(t, 20, sink.count(task.OK))
	})
}

// TestKeyedStaysInOrderThroughRetriesAndResizes is the promise of DESIGN.md 5.6
// end to end but for the processes.
func TestKeyedStaysInOrderThroughRetriesAndResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(4)
		cfg.Pool.Policy = policy("keyed")
		cfg.Retry = Retry{Max: 2, Delay: 3 * time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 0.5 }}
		var mu sync.Mutex
		log, running := map[string][]uint64{}, map[string]bool{}
		exec := &fake{}
		exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			require.False(t, running[a.Task.Key], "two tasks of key %s at once", a.Task.Key)
			running[a.Task.Key] = true
			took, o := time.Duration(a.Task.ID%13+1)*100*time.Millisecond, task.OK
			if a.Task.ID%20 == 0 && a.Number < 3 {
				o = task.Exit
			} else {
				log[a.Task.Key] = append(log[a.Task.Key], a.Task.ID)
			}
			time.AfterFunc(took-time.Nanosecond, func() { mu.Lock(); running[a.Task.Key] = false; mu.Unlock() })
			return took, o
		}
		inbox := make(chan task.Command)
		go func() {
			for _, n := range []int{9, 2, 17} {
				time.Sleep(5 * time.Second)
				inbox <- task.Command{Op: task.Resize, N: n}
			}
		}()
		src := &tasks{n: 2000, change: func(t *task.Task) { t.Key = fmt.Sprint(t.ID * 7919 % 50) }}
		end, err := run(cfg, src, exec, []Sink{&seen{}}, inbox)
		require.NoError(t, err)
		require.EqualValues(t, 2000, end.Stats.Of(task.OK))
		n := 0
		for key, ids := range log {
			n += len(ids)
			require.IsIncreasing(t, ids, "key %s", key)
		}
		require.Equal(t, 2000, n, "each once")
	})
}
