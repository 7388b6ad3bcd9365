package core

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// remote is a configuration without slots of its own.
func remote(name string) Config {
	cfg := config(0)
	cfg.Pool.Remote, cfg.Queue.Policy = true, policy(name)
	cfg.Limit.Timeout = time.Millisecond
	return cfg
}

// join adds n slots of a host with labels.
func (s *sim) join(n int, host string, labels ...string) []int {
	return s.ask(task.Command{Op: task.Join, N: n, Slot: task.Slot{Host: host, Labels: labels}}).Slots
}

func (s *sim) leave(slots []int) {
	for _, id := range slots {
		s.ask(task.Command{Op: task.Leave, N: id})
	}
}

// die has the attempts of a host be lost.
func (s *sim) die(host string) {
	for i := range s.running {
		if r := &s.running[i]; r.Slot.Host == host {
			r.end, r.outcome = s.now, task.Lost
		}
	}
	for _, a := range slices.Clone(s.ahead) {
		if a.Slot.Host == host {
			s.giveBack(a.Task.ID)
		}
	}
	s.sleep(0)
}

func TestARunWithoutWorkersWaitsAndSaysSo(t *testing.T) {
	s := simulate(t, remote("fifo"), 500)
	s.sleep(time.Hour)
	require.Equal(t, "input waits: 64 tasks wait for a worker: none is connected", s.look().Blocking.Text(s.now))
	for _, cmd := range []task.Command{{Op: task.Resize, N: 4}, {Op: task.Grow, N: 1}} {
		require.ErrorContains(t, s.try(cmd).Err, "crew worker")
	}
	require.Equal(t, []int{1, 2, 3, 4}, s.join(4, "web\t1"))
	require.Equal(t, "web_1", s.look().Slots[3].Host)
	require.Equal(t, 64, s.look().Buffer)
	s.sleep(1500 * time.Millisecond)
	s.leave([]int{1, 2, 3, 4})
	require.Len(t, s.look().Running, 4, "what runs there may finish")
	s.sleep(time.Hour)
	require.Empty(t, s.look().Running)
	require.Len(t, s.join(200, "web\t1"), 200)
	require.Equal(t, 400, s.look().Buffer, "enough for every worker")
	require.Len(t, s.look().Running, 200)
	require.EqualValues(t, 500, s.wait().Stats.Of(task.OK), "the timeout is the executor's affair")
	require.Less(t, s.took(), 2*time.Hour+10*time.Second)
	var why []string
	for _, e := range s.events {
		if e.Kind == task.Blocked {
			text := ""
			if e.Blocking != nil {
				text = e.Blocking.Text(e.At)
			}
			why = append(why, text)
		}
	}
	const waits = " tasks wait for a worker: none is connected"
	require.Equal(t, []string{"input waits: 64" + waits, "", "input waits: 56" + waits, ""}, why)
}

// A lost attempt is made again at once, whatever --retries and --retry-on say, and in
// place of the lost one.
func TestLostAttemptsAreMadeAgain(t *testing.T) {
	cfg := remote("fifo")
	cfg.Retry = retries(1, time.Minute)
	cfg.Retry.On = func(r *task.Result) bool {
		require.NotEqual(t, task.Lost, r.Outcome)
		return false
	}
	cfg.Order = Order{Keep: true, Window: 100}
	where := map[uint64][]string{}
	s := simulate(t, cfg, 40, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			where[a.Task.ID] = append(where[a.Task.ID], a.Slot.Host)
			return time.Second, task.OK
		}
	})
	web1 := s.join(2, "web1")
	s.join(2, "web2")
	s.sleep(2500 * time.Millisecond)
	s.leave(web1)
	s.die("web1")
	end := s.wait()
	require.EqualValues(t, 40, end.Stats.Of(task.OK))
	require.EqualValues(t, 2, end.Stats.Lost)
	require.Zero(t, end.Stats.Retried)
	retried, next := 0, uint64(1)
	for _, e := range s.events {
		switch e.Kind {
		case task.Retried:
			retried++
		case task.Released:
			require.Equal(t, next, e.ID)
			next = e.Last + 1
		}
	}
	require.Equal(t, 2, retried)
	require.Equal(t, 18*time.Second, s.took().Truncate(100*time.Millisecond), "ten tasks in 3 s, then two a second")
	moved := 0
	for _, hosts := range where {
		if len(hosts) > 1 {
			moved++
			require.Equal(t, []string{"web1", "web2"}, hosts)
		}
	}
	require.Equal(t, 2, moved)
}

// lossy is a run of one task on another host whose first attempts come back without
// having begun. Others are lost unless do says otherwise.
func lossy(t *testing.T, retry Retry, unbegun int, do func(n int) task.Outcome) *sim {
	cfg := remote("fifo")
	cfg.Retry = retry
	s := simulate(t, cfg, 1, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if do == nil {
				return time.Second, task.Lost
			}
			return time.Second, do(a.Number)
		}
		s.result = func(r *task.Result) { r.Unbegun = r.Attempt <= unbegun }
	})
	s.join(1, "web1")
	return s
}

// last returns how a run of one task has ended, and the task's last result.
func (s *sim) last() (*task.Result, *Ending) {
	end := s.wait()
	var last *task.Result
	retried := 0
	for _, e := range s.events {
		switch {
		case e.Kind == task.Finished:
			last = e.Result
		case e.Kind == task.Retried:
			require.Equal(s.t, retried, e.Retries, "so many attempts came before")
			if !e.Result.Unbegun {
				retried++
			}
		}
	}
	return last, end
}

func TestATaskThatIsLostAgainAndAgainIsGivenUp(t *testing.T) {
	r, end := lossy(t, Retry{}, 0, nil).last()
	require.Equal(t, task.Lost, r.Outcome)
	require.Equal(t, poison, r.Attempt)
	require.Len(t, r.Before, poison-1)
	require.Equal(t, "lost with web1 after 1s", r.Verdict())
	require.EqualValues(t, 1, end.Stats.Failed())
	require.EqualValues(t, poison, end.Stats.Lost)

	// An attempt that had not begun does not count, but a task that nobody takes waits
	// longer and longer.
	s := lossy(t, Retry{}, 20, nil)
	r, end = s.last()
	require.Equal(t, 25*time.Second+(45+10*10)*returnedWait, s.took().Truncate(returnedWait))
	require.Equal(t, 20+poison, r.Attempt)
	require.EqualValues(t, poison, end.Stats.Lost)

	// Neither does a loss count as a failure, nor a failure as a loss.
	r, end = lossy(t, retries(1, 0), 0, func(n int) task.Outcome {
		if n == 3 || n == 6 {
			return task.Exit
		}
		return task.Lost
	}).last()
	require.Equal(t, task.Exit, r.Outcome)
	require.Equal(t, 6, r.Attempt)
	require.EqualValues(t, 1, end.Stats.Retried)
	require.EqualValues(t, 4, end.Stats.Lost)
}

// What becomes of an attempt that is lost while the run ends or its task is cancelled.
func TestLostAtTheEnd(t *testing.T) {
	s := lossy(t, Retry{}, 0, nil)
	s.sleep(500 * time.Millisecond)
	s.ask(task.Command{Op: task.Drain})
	r, end := s.last()
	require.Equal(t, task.NotRun, r.Outcome)
	require.Len(t, r.Before, 1)
	require.EqualValues(t, 1, end.Stats.Lost)

	for op, final := range map[task.Op]bool{task.Stop: false, task.Cancel: true} {
		s := lossy(t, Retry{}, 0, nil)
		s.deaf = true
		s.ask(task.Command{Op: op, IDs: []uint64{1}})
		s.die("web1")
		r, _ := s.last()
		require.Equal(t, task.Cancelled, r.Outcome)
		require.Equal(t, final, r.Final, "whether it must not run again")
	}
}

// Tasks of a key never overlap and stay in order while hosts come, go and die.
func TestKeysStayInOrderWhenHostsDie(t *testing.T) {
	for ahead := range 3 {
		testKeysStayInOrder(t, ahead)
	}
}

func testKeysStayInOrder(t *testing.T, ahead int) {
	ended := map[string]uint64{}
	cfg := sendAhead("keyed", ahead)
	cfg.Queue.Buffer, cfg.Retry = 1000, retries(1, 500*time.Millisecond)
	s := simulate(t, cfg, 2000, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = string(rune('a' + t.ID%40)) }
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			require.False(t, slices.ContainsFunc(s.running, func(r simulated) bool { return r.Task.Key == a.Task.Key }))
			require.Less(t, ended[a.Task.Key], a.Task.ID)
			if a.Number == 1 && a.Task.ID%10 == 0 {
				return time.Second, task.Exit
			}
			return time.Second, task.OK
		}
		s.result = func(r *task.Result) {
			if r.Outcome == task.OK {
				ended[r.Task.Key] = r.Task.ID
			}
		}
	})
	a, _ := s.join(4, "a"), s.join(4, "b")
	s.sleep(10500 * time.Millisecond)
	c := s.join(4, "c")
	s.sleep(10 * time.Second)
	s.leave(a)
	s.sleep(200 * time.Millisecond)
	s.die("a")
	s.sleep(10 * time.Second)
	s.leave(c)
	s.die("c")
	end := s.wait()
	require.EqualValues(t, 2000, end.Stats.Of(task.OK))
	require.Positive(t, end.Stats.Lost)
}

func TestTopicsRunOnWorkersWithTheirLabel(t *testing.T) {
	cfg := remote("fifo")
	cfg.Queue.Policy = policy("topic", sched.Topics{List: []sched.Topic{{Key: sched.Hash("gpu"), Workers: 2}}, Rest: 2})
	s := simulate(t, cfg, 60, func(s *sim) {
		s.change = func(t *task.Task) { t.Key = []string{"gpu", "mail", "db"}[t.ID%3] }
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.Key == "gpu" {
				require.Contains(t, []string{"gpu1", "gpu2"}, a.Slot.Host)
			}
			return time.Second, task.OK
		}
	})
	gpu := s.join(2, "gpu1", "big", "gpu")
	s.join(2, "web1")
	s.sleep(3500 * time.Millisecond)
	s.leave(gpu)
	s.sleep(time.Hour)
	require.Equal(t, "13 tasks of key gpu wait for a worker with that label: none is connected", s.look().Blocking.Text(s.now))
	s.join(1, "gpu2", "gpu")
	require.EqualValues(t, 60, s.wait().Stats.Of(task.OK))
}
