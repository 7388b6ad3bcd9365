package runner

import (
	"context"
	"errors"
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

func TestNothingIsAskedOfARunThatIsOver(t *testing.T) {
	r, err := New(config(1), &tasks{}, &fake{}, nil, nil)
	require.NoError(t, err)
	r.Wait()
	require.Error(t, r.Do(task.Command{Op: task.Look}).Err)
	require.Error(t, r.Do(task.Command{Op: task.Cancel, IDs: []uint64{1}}).Err)
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
