package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/sched"
)

// lag is how long events may wait before the pump passes them on.
const lag = 10 * time.Millisecond

// tasks is a Source of n tasks, each after a pause.
type tasks struct {
	n, given int
	pause    time.Duration
	change   func(*task.Task)
}

func (s *tasks) Next(number func() uint64) (*task.Task, error) {
	if s.given == s.n {
		return nil, io.EOF
	}
	time.Sleep(s.pause)
	s.given++
	t := &task.Task{ID: number(), Argv: []string{"true"}, Cost: 1}
	if s.change != nil {
		s.change(t)
	}
	return t, nil
}

// fakeExecutor is an Executor whose attempts succeed after a second, or end when they are asked to.
type fakeExecutor struct{ instant }

func (fakeExecutor) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := answer(a)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		r.Outcome, r.Err = task.OutcomeOf(context.Cause(ctx)), context.Cause(ctx)
	}
	return r
}

// fakeSink is a Sink that remembers how tasks ended.
type fakeSink struct {
	finished map[uint64]*task.Result
	err      error // of Close
}

func (s *fakeSink) Consume(batch []task.Event) error {
	for _, e := range batch {
		if e.Kind == task.Finished {
			if s.finished == nil {
				s.finished = map[uint64]*task.Result{}
			}
			s.finished[e.ID] = e.Result
		}
	}
	return nil
}

func (s *fakeSink) Close(task.Stats) error { return s.err }

func policy(name string) sched.Policy {
	return sched.New(name, sched.Topics{})
}

func config(workers int) core.Config {
	return core.Config{
		Pool:  core.Pool{Workers: workers},
		Queue: core.Queue{Policy: policy("fifo"), Buffer: max(64, 2*workers)},
		Limit: core.Limit{Limit: task.Limit{KillAfter: 5 * time.Second}},
	}
}

// begin starts a run, and returns it and a function that waits for its end.
func begin(t *testing.T, cfg core.Config, src Source, exec Executor, rec Recorder, sinks ...Sink) (*Run, <-chan core.Ending) {
	t.Helper()
	r := New(cfg, src, exec, rec, sinks)
	end := make(chan core.Ending, 1)
	go func() { end <- r.Wait() }()
	synctest.Wait()
	return r, end
}

// fakeRecorder is a Recorder that remembers its calls, and may block at the end of an attempt.
type fakeRecorder struct {
	mu    sync.Mutex
	calls []string
	hold  <-chan struct{} // nil for not blocking
}

func (r *fakeRecorder) add(call string, id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(call, id))
}

func (r *fakeRecorder) Started(a task.Attempt, _ bool) { r.add("+", a.Task.ID) }

func (r *fakeRecorder) Ended(a task.Attempt, _ *task.Result, _ bool) {
	if r.add("-", a.Task.ID); r.hold != nil {
		<-r.hold
	}
}

func (r *fakeRecorder) Idle() { r.add("idle", 0) }

// slowExecutor is an Executor whose processes take up to a second to start.
type slowExecutor struct {
	fakeExecutor
	began  func(task.Attempt)
	mu     sync.Mutex
	starts []time.Time
}

func (s *slowExecutor) OnBegun(began func(task.Attempt)) { s.began = began }

func (s *slowExecutor) Run(_ context.Context, a task.Attempt) *task.Result {
	time.Sleep(time.Duration(a.Task.ID*a.Task.ID%11) * 100 * time.Millisecond)
	s.mu.Lock()
	s.starts = append(s.starts, time.Now())
	s.mu.Unlock()
	s.began(a)
	return answer(a)
}

// TestRatesCountProcesses checks that rates count when processes start, however long that takes.
func TestRatesCountProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, cfg := &slowExecutor{}, config(8)
		cfg.Queue.Rate = task.Rate{N: 5, Period: time.Second, Burst: 3}
		_, end := begin(t, cfg, &tasks{n: 100}, exec, nil)
		require.EqualValues(t, 100, (<-end).Stats.ByOutcome[task.OK])
		for i := range exec.starts[7:] {
			require.Greater(t, exec.starts[i+7].Sub(exec.starts[i]), time.Second, "8 starts from %d on", i)
		}
	})
}

// TestRecorderLearnsOfIdleSlots checks that the end of an attempt is followed by the start of the
// next one in its slot, or by Idle.
func TestRecorderLearnsOfIdleSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pause, want := range map[time.Duration][]string{
			0:           {"+1", "-1", "+2", "-2", "idle0"},
			time.Minute: {"+1", "-1", "idle0", "+2", "-2", "idle0"},
		} {
			rec := &fakeRecorder{}
			_, end := begin(t, config(1), &tasks{n: 2, pause: pause}, fakeExecutor{}, rec)
			<-end
			synctest.Wait()
			require.Equal(t, want, rec.calls)
		}
	})
}

// TestStuckRecorderIsGivenUp checks that a run that was asked to stop gives up a Recorder that is
// blocked by a full pipe or a slow disk, and ignores its late answer.
func TestStuckRecorderIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, hold := &fakeSink{}, make(chan struct{})
		r, end := begin(t, config(2), &tasks{n: 2}, fakeExecutor{}, &fakeRecorder{hold: hold}, sink)
		time.Sleep(2 * time.Second)
		require.NoError(t, r.Do(task.Command{Op: task.Stop}).Err)
		e := <-end
		require.EqualValues(t, 2, e.Stats.ByOutcome[task.OK])
		require.Zero(t, e.Abandoned)
		close(hold)
	})
}

func TestEveryErrorAtTheEndIsReported(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	r := New(config(1), &tasks{n: 1}, instant{}, nil, []Sink{&fakeSink{err: first}, &fakeSink{err: second}})
	end := r.Wait()
	require.Equal(t, first, end.Err)
	require.Equal(t, []error{second}, end.More)
	require.Error(t, r.Do(task.Command{Op: task.Look}).Err, "nothing is asked of a run that is over")
}

// strictExecutor is an Executor whose attempts end as soon as they are asked to, or later. It
// notices attempts that are asked to end for another task's reason.
type strictExecutor struct {
	instant
	t      *testing.T
	mu     sync.Mutex
	asked  int
	cancel func(id uint64, why error)
}

// cause returns the reason for which a task may be asked to end.
func (m *strictExecutor) cause(id uint64) error {
	return []error{nil, task.ErrMemory, nil, task.ErrCancelled}[id%4]
}

func (m *strictExecutor) Run(ctx context.Context, a task.Attempt) *task.Result {
	want := m.cause(a.Task.ID)
	if want != nil {
		time.AfterFunc(2*time.Millisecond, func() { m.cancel(a.Task.ID, want) })
	}
	select {
	case <-ctx.Done():
		require.Equal(m.t, want, context.Cause(ctx), "task %d", a.Task.ID)
		m.mu.Lock()
		m.asked++
		m.mu.Unlock()
	case <-time.After(time.Duration(2+a.Task.ID/4%2) * time.Millisecond):
	}
	return answer(a)
}

// TestEndConcernsOneAttempt checks that an attempt that ends just when it is cancelled
// does not pass that on to the next attempt.
func TestEndConcernsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &strictExecutor{t: t}
		r := New(config(8), &tasks{n: 4000}, exec, nil, nil)
		exec.cancel = func(id uint64, why error) { r.Do(task.Command{Op: task.Cancel, IDs: []uint64{id}, Err: why}) }
		r.Wait()
		require.Positive(t, exec.asked)
	})
}
