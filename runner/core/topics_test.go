package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

func TestABlockedInputIsExplained(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy string
		slow   bool
		want   string
	}{
		{"a worker", "round-robin", false, "input waits: 1[4-6] tasks wait for worker 1"},
		{"a key of one worker", "keyed", true, "input waits: 1[4-6] tasks of key db1 wait for worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(4)
			cfg.Queue.Policy, cfg.Queue.Buffer = policy(c.policy), 16
			s := simulate(t, cfg, 200, func(s *sim) {
				s.change = func(t *task.Task) { t.Key = "db1" }
				s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
					if a.Slot.ID == 1 || c.slow {
						return 500 * time.Millisecond, task.OK
					}
					return time.Millisecond, task.OK
				}
			})
			s.wait()
			require.NotEmpty(t, s.texts())
			require.Regexp(t, c.want, s.texts()[0])
		})
	}
}

func TestAutomaticTopicsShareByBacklogAndSpareTheProcessors(t *testing.T) {
	cfg := config(12)
	cfg.Queue.Policy = policy("topic", sched.Topics{Auto: true})
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

func TestARefusedTopicFailsAndOthersGoOn(t *testing.T) {
	cfg := config(3)
	cfg.Queue.Policy = policy("topic", sched.Topics{List: []sched.Topic{{Key: sched.Hash("mail"), Workers: 2}, {Key: sched.Hash("db"), Workers: 1}}})
	s := simulate(t, cfg, 30, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = [...]string{"mail", "db", "web"}[t.ID%3] }
	})
	s.wait()
	require.Equal(t, 10, s.count(task.StartFailed))
	require.Equal(t, 20, s.count(task.OK))
}

// TestKeyedStaysInOrderThroughRetriesAndResizes is the promise of DESIGN.md 5.6
// end to end but for the processes.
func TestKeyedStaysInOrderThroughRetriesAndResizes(t *testing.T) {
	cfg := config(4)
	cfg.Queue.Policy = policy("keyed")
	cfg.Retry = Retry{Max: 2, Delay: 3 * time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 0.5 }}
	log := map[string][]uint64{}
	s := simulate(t, cfg, 2000, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = fmt.Sprint(t.ID * 7919 % 50) }
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			for _, r := range s.running {
				require.NotEqual(t, a.Task.Key, r.Task.Key, "two tasks of a key at once")
			}
			took, o := time.Duration(a.Task.ID%13+1)*100*time.Millisecond, task.OK
			if a.Task.ID%20 == 0 && a.Number < 3 {
				o = task.Exit
			} else {
				log[a.Task.Key] = append(log[a.Task.Key], a.Task.ID)
			}
			return took, o
		}
	})
	for _, n := range []int{9, 2, 17} {
		s.sleep(5 * time.Second)
		s.ask(task.Command{Op: task.Resize, N: n})
	}
	require.EqualValues(t, 2000, s.wait().Stats.Of(task.OK))
	n := 0
	for key, ids := range log {
		n += len(ids)
		require.IsIncreasing(t, ids, "key %s", key)
	}
	require.Equal(t, 2000, n, "each once")
}
