package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
	"crew/sched"
)

// Bounds of package core.
const (
	margin     = time.Second
	lag        = 10 * time.Millisecond
	outboxFull = 4096
)

// tasks is a Source of n tasks, each after a pause, then of err.
type tasks struct {
	n      int
	given  atomic.Int64
	pause  time.Duration
	err    error
	change func(*task.Task)
	wait   <-chan struct{} // when set, the end of input comes only once it is closed
}

func (s *tasks) Next(number func() uint64) (*task.Task, error) {
	if int(s.given.Load()) == s.n {
		if s.wait != nil {
			<-s.wait
		}
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	time.Sleep(s.pause)
	s.given.Add(1)
	id := number()
	t := &task.Task{ID: id, Argv: []string{"true"}, Records: [][]string{{fmt.Sprint(id)}}, Cost: 1}
	if s.change != nil {
		s.change(t)
	}
	return t, nil
}

// fake is an Executor whose attempts take as long and end as do says.
type fake struct {
	do    func(a task.Attempt) (time.Duration, task.Outcome)
	since time.Time // when attempts have written last

	mu      sync.Mutex
	running int
	most    int
	started []uint64
	kills   map[uint64]chan struct{} // by task
	grace   time.Duration            // how long a cancelled attempt takes to end, unless it is killed
}

// kill is closed when the running attempt of a task is killed.
func (f *fake) kill(id uint64) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kills == nil {
		f.kills = map[uint64]chan struct{}{}
	}
	if f.kills[id] == nil {
		f.kills[id] = make(chan struct{})
	}
	return f.kills[id]
}

func (f *fake) Kill(id uint64, _ int) {
	kill := f.kill(id)
	select {
	case <-kill:
	default:
		close(kill)
	}
}

// Silence has attempts write nothing since then.
func (f *fake) Silence(task.Attempt) time.Duration { return time.Since(f.since) }

func (f *fake) Suspend() {}
func (f *fake) Resume()  {}

func (f *fake) Run(ctx context.Context, a task.Attempt) *task.Result {
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.started = append(f.started, a.Task.ID)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.running--; delete(f.kills, a.Task.ID); f.mu.Unlock() }()
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Start: time.Now()}
	took, o := time.Second, task.OK
	if f.do != nil {
		took, o = f.do(a)
	}
	select {
	case <-time.After(took):
		r.Outcome = o
	case <-ctx.Done():
		r.Outcome = task.EndedBy(context.Cause(ctx))
		select {
		case <-time.After(f.grace):
		case <-f.kill(a.Task.ID):
		}
	}
	if r.Outcome == task.Exit {
		r.Code = 1
	}
	r.End = time.Now()
	return r
}

func (f *fake) begun() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.started)
}

// seen is a Sink that remembers.
type seen struct {
	mu       sync.Mutex
	finished map[uint64]task.Outcome
	at       map[uint64]time.Time // when a task finished
	released []uint64
	longest  int // batch
	kinds    []task.Kind
	retried  int
	fail     func(task.Event) error
	block    <-chan struct{}
	closed   bool
	stats    task.Stats
}

func (s *seen) Consume(batch []task.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == nil {
		s.finished, s.at = map[uint64]task.Outcome{}, map[uint64]time.Time{}
	}
	s.longest = max(s.longest, len(batch))
	for _, e := range batch {
		s.kinds = append(s.kinds, e.Kind)
		switch e.Kind {
		case task.Finished:
			if o, twice := s.finished[e.ID]; twice {
				panic(fmt.Sprintf("task %d finished twice: %v, %v", e.ID, o, e.Result.Outcome))
			}
			s.finished[e.ID], s.at[e.ID] = e.Result.Outcome, e.At
		case task.Retried:
			s.retried++
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				s.released = append(s.released, id)
			}
		}
		if s.fail != nil {
			if err := s.fail(e); err != nil {
				return err
			}
		}
	}
	if s.block != nil {
		<-s.block
	}
	return nil
}

func (s *seen) Close(st task.Stats) error { s.closed, s.stats = true, st; return nil }

func (s *seen) count(o task.Outcome) (n int) {
	for _, have := range s.finished {
		if have == o {
			n++
		}
	}
	return n
}

func policy(name string) sched.Policy {
	p, err := sched.New(sched.Config{Name: name})
	if err != nil {
		panic(err)
	}
	return p
}

func config(workers int) core.Config {
	return core.Config{
		Pool:  core.Pool{Workers: workers},
		Queue: core.Queue{Policy: policy("fifo"), Buffer: max(64, 2*workers)},
		Limit: core.Limit{KillAfter: 5 * time.Second},
	}
}

// run runs everything; the commands of inbox go to the run as they come.
func run(cfg core.Config, src Source, exec Executor, sinks []Sink, inbox <-chan task.Command) (core.Ending, error) {
	r, err := New(cfg, src, exec, nil, sinks)
	if err != nil {
		return core.Ending{}, err
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case cmd := <-inbox:
				r.Do(cmd)
			case <-over:
				return
			}
		}
	}()
	return r.Wait(), nil
}

// told is a recorder that takes down what it is told.
type told struct {
	mu    sync.Mutex
	calls []string
}

func (r *told) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *told) Started(task.Attempt, bool)             { r.add("started") }
func (r *told) Ended(task.Attempt, *task.Result, bool) { r.add("ended") }
func (r *told) Idle()                                  { r.add("idle") }

// Behind the end of an attempt comes the start of the next one in its slot, or the
// recorder is told that there is none.
func TestRecorderIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &told{}
		r, err := New(config(1), &tasks{n: 3}, &fake{}, rec, nil)
		require.NoError(t, err)
		r.Wait()
		synctest.Wait()
		require.Equal(t, []string{"started", "ended", "started", "ended", "started", "ended", "idle"}, rec.calls)

		rec = &told{}
		r, err = New(config(1), &tasks{n: 2, pause: time.Minute}, &fake{}, rec, nil)
		require.NoError(t, err)
		r.Wait()
		synctest.Wait()
		require.Equal(t, []string{"started", "ended", "idle", "started", "ended", "idle"}, rec.calls)
	})
}

func TestRunsAllWithinThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, sink := &fake{}, &seen{}
		begin := time.Now()
		end, err := run(config(4), &tasks{n: 100}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.NoError(t, end.Err)
		require.Equal(t, 4, exec.most)
		require.Equal(t, 100, sink.count(task.OK))
		require.Equal(t, 25*time.Second, time.Since(begin), "four at a time, none idle")
		require.True(t, sink.closed)
		require.EqualValues(t, 100, end.Stats.Admitted)
		require.EqualValues(t, 100, end.Stats.Of(task.OK))
		require.Zero(t, end.Stats.Running)
	})
}

func TestFirstTaskStartsBeforeInputEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		exec, sink := &fake{}, &seen{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := run(config(2), &tasks{n: 1, wait: hold}, exec, []Sink{sink}, nil)
			require.NoError(t, err)
		}()
		synctest.Wait()
		require.Equal(t, []uint64{1}, exec.begun())
		time.Sleep(time.Second + lag)
		synctest.Wait()
		sink.mu.Lock()
		require.Equal(t, []uint64{1}, sink.released, "shown while the input is open")
		sink.mu.Unlock()
		close(hold)
		<-done
	})
}

func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Queue.Buffer = 10
		src := &tasks{n: 1000}
		go func() {
			_, err := run(cfg, src, &fake{}, []Sink{&seen{}}, nil)
			require.NoError(t, err)
		}()
		synctest.Wait()
		require.LessOrEqual(t, int(src.given.Load()), 10+2+1, "buffer, running, and one in the reader's hand")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1000, src.given.Load())
	})
}

func TestKeepOrderReleasesInOrderWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(8)
		cfg.Order = core.Order{Keep: true, Window: 50}
		src := &tasks{n: 300}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 1 {
				return time.Hour, task.OK
			}
			return time.Duration(a.Task.ID%7) * time.Millisecond, task.OK
		}}
		sink := &seen{}
		go func() {
			_, err := run(cfg, src, exec, []Sink{sink}, nil)
			require.NoError(t, err)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, exec.begun(), 50, "the window bounds how far completion runs ahead")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		sink.mu.Lock()
		defer sink.mu.Unlock()
		require.Len(t, sink.released, 300)
		require.True(t, slices.IsSorted(sink.released))
	})
}

// TestManyAreReleasedInFewEvents: what waits for one task takes no memory of its
// own when that ends.
func TestManyAreReleasedInFewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * outboxFull
		cfg := config(8)
		cfg.Order = core.Order{Keep: true, Window: n}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 1 {
				return time.Hour, task.OK
			}
			return time.Millisecond, task.OK
		}}
		sink := &seen{}
		_, err := run(cfg, &tasks{n: n}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.Len(t, sink.released, n)
		require.True(t, slices.IsSorted(sink.released))
		require.Less(t, sink.longest, outboxFull)
	})
}

func TestAFullOutboxStopsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		exec := &fake{do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Millisecond, task.OK }}
		sink := &seen{block: hold}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := run(config(4), &tasks{n: 6000}, exec, []Sink{sink}, nil)
			require.NoError(t, err)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Less(t, len(exec.begun()), 2*outboxFull, "a stopped reader stops the run")
		close(hold)
		<-done
		require.Equal(t, 6000, sink.count(task.OK), "and loses nothing")
	})
}

func TestInputErrorRunsWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, sink := errors.New("read stdin: input/output error"), &seen{}
		end, err := run(config(2), &tasks{n: 7, err: broken}, &fake{}, []Sink{sink}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, end.Err, broken)
		require.Equal(t, 7, sink.count(task.OK))
	})
}

func TestASinkThatBreaksStopsTheRunAndOthersSeeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		bad, good := &seen{}, &seen{}
		bad.fail = func(e task.Event) error {
			if e.Kind == task.Finished && e.ID == 5 {
				return full
			}
			return nil
		}
		end, err := run(config(2), &tasks{n: 1000}, &fake{}, []Sink{bad, good}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, end.Err, full)
		require.EqualValues(t, len(good.finished), end.Stats.Admitted)
		require.Equal(t, int64(len(good.released)), end.Stats.Released)
		require.True(t, bad.closed && good.closed)
		require.Less(t, end.Stats.Admitted, int64(100))
	})
}

func TestAReaderThatNeverReadsIsGivenUpOnlyWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, inbox := make(chan struct{}), make(chan task.Command)
		go func() {
			time.Sleep(time.Hour)
			inbox <- task.Command{Op: task.Stop, Signal: 15}
		}()
		begin := time.Now()
		end, err := run(config(2), &tasks{n: 3}, &fake{}, []Sink{&seen{block: hold}}, inbox)
		require.NoError(t, err)
		require.True(t, end.Unshown)
		require.Equal(t, time.Hour+5*time.Second+margin, time.Since(begin))
		close(hold)
	})
}

func TestAHaltedRunWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(hold) })
		cfg := config(2)
		cfg.Halt = core.Halt{When: core.Now, On: core.OnFail, N: 2}
		exec := &fake{do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Second, task.Exit }}
		sink := &seen{block: hold}
		end, err := run(cfg, &tasks{n: 3}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.False(t, end.Unshown, "nobody told it to end")
		require.Equal(t, 2, sink.count(task.Exit))
		require.EqualValues(t, 2, end.Stats.Failed())
	})
}

// unclosable is a Sink that fails at the end.
type unclosable struct {
	seen
	err error
}

func (s *unclosable) Close(task.Stats) error { return s.err }

func TestEveryErrorAtTheEndIsTold(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	end, err := run(config(1), &tasks{n: 1}, &fake{}, []Sink{&unclosable{err: first}, &unclosable{err: second}}, nil)
	require.NoError(t, err)
	require.Equal(t, first, end.Err)
	require.Equal(t, []error{second}, end.More)
}

// stuck is an Executor whose attempts end when the channel is closed, whatever
// they are told.
type stuck struct {
	instant
	end chan struct{}
}

func (s stuck) Run(_ context.Context, a task.Attempt) *task.Result {
	<-s.end
	return &task.Result{Task: a.Task, Outcome: task.OK}
}

func TestAttemptsThatNeverEndAreAbandonedOnlyWhenTold(t *testing.T) {
	for _, c := range []struct {
		op   task.Op
		took time.Duration
	}{{task.Stop, 5*time.Second + margin}, {task.Kill, margin}} {
		synctest.Test(t, func(t *testing.T) {
			exec, inbox := stuck{end: make(chan struct{})}, make(chan task.Command)
			go func() {
				time.Sleep(time.Hour)
				inbox <- task.Command{Op: c.op, Signal: 15}
			}()
			sink := &seen{}
			begin := time.Now()
			end, err := run(config(2), &tasks{n: 3}, exec, []Sink{sink}, inbox)
			require.NoError(t, err)
			require.Equal(t, time.Hour+c.took, time.Since(begin))
			require.Equal(t, 2, end.Abandoned)
			require.Equal(t, 2, sink.count(task.Cancelled))
			require.Equal(t, 1, sink.count(task.NotRun))
			require.True(t, sink.closed)
			close(exec.end)
		})
	}
}

func TestATroubledRunLetsItsTasksFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, good := &seen{}, &seen{}
		broken.fail = func(e task.Event) error {
			if e.Kind == task.Finished {
				return errors.New("no space left")
			}
			return nil
		}
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Duration(a.Task.ID) * time.Second, task.OK
		}}
		end, err := run(config(3), &tasks{n: 50}, exec, []Sink{broken, good}, nil)
		require.NoError(t, err)
		require.ErrorContains(t, end.Err, "no space left")
		require.GreaterOrEqual(t, good.count(task.OK), 3, "what ran may finish")
		require.Less(t, good.count(task.OK), 10)
		require.Zero(t, good.count(task.Cancelled))
	})
}

// counted is an Output that counts those that are closed.
type counted struct {
	task.Output
	once   sync.Once
	closed *atomic.Int64
}

func (o *counted) Close() error {
	o.once.Do(func() { o.closed.Add(1) })
	return nil
}

// The memory that a task takes does not grow with its attempts: the first and the latest
// are kept, and the outputs of the others are closed once they have been shown.
func TestManyAttemptsOfATask(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const attempts = 500
			cfg := config(1)
			cfg.Retry = core.Retry{Max: attempts - 1, Delay: time.Second, MaxDelay: time.Second, Jitter: func() float64 { return 1 }, Keep: keep}
			var made, closed atomic.Int64
			exec := resulting(func(a task.Attempt) *task.Result {
				made.Add(1)
				return &task.Result{Task: a.Task, Attempt: a.Number, Outcome: task.Exit, Code: 1, Stdout: &counted{closed: &closed}}
			})
			var got []int
			sink := &seen{fail: func(e task.Event) error {
				if e.Kind == task.Finished {
					require.Equal(t, attempts-1, e.Result.Tries())
					for _, b := range e.Result.Before {
						got = append(got, b.Attempt)
					}
					if keep {
						require.EqualValues(t, attempts-1-len(got), closed.Load(), "attempts left out")
					}
				}
				return nil
			}}
			_, err := run(cfg, &tasks{n: 1}, exec, []Sink{sink}, nil)
			require.NoError(t, err)
			require.Equal(t, []int{1, 491, 492, 493, 494, 495, 496, 497, 498, 499}, got)
			require.EqualValues(t, attempts, made.Load())
			require.EqualValues(t, attempts, closed.Load())
		})
	}
}

// resulting is an Executor whose attempts end at once with the result that it returns.
type resulting func(task.Attempt) *task.Result

func (f resulting) Run(_ context.Context, a task.Attempt) *task.Result { return f(a) }
func (resulting) Kill(uint64, int)                                     {}
func (resulting) Suspend()                                             {}
func (resulting) Resume()                                              {}
