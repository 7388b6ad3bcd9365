package wiring

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/control"
	"crew/runner/core"
	"crew/runner/crewtest"
	"crew/runner/sink"
	"crew/runner/task"
	"crew/sched"
)

// fakeWork runs attempts: it notes their tasks and waits for go.
type fakeWork struct {
	mu  sync.Mutex
	ran []*task.Task
	may chan struct{} // nil: do not wait
}

func (x *fakeWork) Run(ctx context.Context, a task.Attempt) *task.Result {
	if x.may != nil {
		<-x.may
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ran = append(x.ran, a.Task)
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK}
	if slices.Contains(a.Task.Argv, "fail") {
		r.Outcome, r.Code = task.Exit, 3
	}
	return r
}

func (x *fakeWork) Kill(uint64, int) {}
func (x *fakeWork) Suspend()         {}
func (x *fakeWork) Resume()          {}

// served is a crew serve without processes and without a socket.
type served struct {
	*feed
	run  *runner.Run
	left int // tasks of an earlier one, once it has taken any
	end  chan core.Ending
}

// serve runs it with the given command line, of which it obeys --state.
func serve(t testing.TB, line string, work *fakeWork) *served {
	o := parsed(t, strings.Fields("serve "+line)...)
	p, err := poolOf(o, "")
	require.NoError(t, err)
	src, err := openSource(o, p.jobs, nil, nil)
	require.NoError(t, err)
	policy, err := sched.New(sched.Config{Name: o.Sched.Policy})
	require.NoError(t, err)
	cfg := core.Config{
		Pool: core.Pool{Workers: p.jobs}, Queue: core.Queue{Policy: policy, Buffer: p.buffer},
		Retry: core.Retry{Jitter: func() float64 { return 0 }},
		Feed:  core.Feed{Open: true, MaxQueued: o.Serve.MaxQueued, Remember: true},
	}
	s := &served{end: make(chan core.Ending, 1)}
	w := &wiring{opts: o, plan: planOf(o), source: src, screen: sink.NewScreen(os.Stdout, os.Stderr), out: os.Stdout}
	require.NoError(t, w.openState())
	do := func(cmd task.Command) task.Reply { return s.run.Do(cmd) }
	s.feed = newFeed(src, w.state, do, func(left int) { s.left = left })
	var rec runner.Recorder
	var sinks []runner.Sink
	if s.queue != nil {
		rec, sinks = s.queue, []runner.Sink{s.queue.Commit()}
	}
	s.run, err = runner.New(cfg, s.feed, work, rec, sinks)
	require.NoError(t, err)
	go func() {
		end := s.run.Wait()
		s.close()
		if s.queue != nil {
			_ = s.queue.Close()
		}
		s.end <- end
	}()
	return s
}

// add adds values or, without a template, a command.
func (s *served) add(values ...string) (ids []uint64, err error) {
	a := &control.Addition{}
	for _, v := range values {
		a.Values = append(a.Values, task.Bytes(v))
	}
	if len(s.source.opts.Command.Words) == 0 {
		a.Values, a.Command = nil, a.Values
	}
	err = s.Add(a, func(got []uint64) { ids = got })
	return ids, err
}

// drain lets the tasks run and waits for the end.
func (s *served) drain(t testing.TB) core.Ending {
	require.NoError(t, s.Do(task.Command{Op: task.Rest}).Err)
	return <-s.end
}

// TestFeedFromMany: what many clients add at once is numbered without gaps, runs once
// each, and each client is told its own numbers.
func TestFeedFromMany(t *testing.T) {
	const clients, each = 16, 200
	work := &fakeWork{}
	s := serve(t, "-j4 run {} {#}", work)
	told := make([][]uint64, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for range each {
				ids, err := s.add("a", "b")
				if err != nil {
					t.Error(err)
				}
				told[c] = append(told[c], ids...)
			}
		})
	}
	wg.Wait()
	end := s.drain(t)
	require.EqualValues(t, 2*clients*each, end.Stats.Of(task.OK))
	var all []uint64
	for _, ids := range told {
		require.True(t, slices.IsSorted(ids))
		all = append(all, ids...)
	}
	slices.Sort(all)
	for i, id := range all {
		require.EqualValues(t, i+1, id)
	}
	require.Len(t, work.ran, 2*clients*each)
}

// TestFeedHasABound: of many additions at once as many are taken as there is room for.
func TestFeedHasABound(t *testing.T) {
	work := &fakeWork{may: make(chan struct{})}
	s := serve(t, "-j2 --max-queued 10 run {}", work)
	var taken, full atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch _, err := s.add("x"); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, task.ErrFull):
				full.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 12, taken.Load(), "two run, ten wait")
	require.EqualValues(t, 38, full.Load())
	_, err := s.add(slices.Repeat([]string{"x"}, 11)...)
	require.EqualError(t, err, "11 tasks at once are more than --max-queued 10: add fewer")
	close(work.may)
	require.EqualValues(t, 12, s.drain(t).Stats.Admitted)
	_, err = s.add("late")
	require.Error(t, err)
}

func TestFeedRefuses(t *testing.T) {
	work := &fakeWork{may: make(chan struct{})}
	own := serve(t, "-j1 run {}", work)
	_, err := own.add("a")
	require.NoError(t, err)
	values := []task.Bytes{"x"}
	for want, a := range map[string]*control.Addition{
		"it takes values, not commands":    {Command: values},
		"there is no task 2 to come after": {Values: values, After: []uint64{1, 2}},
		"there is nothing to add":          {},
	} {
		require.EqualError(t, own.Add(a, func([]uint64) { t.Error("told") }), want)
	}
	require.NoError(t, own.Do(task.Command{Op: task.Drain}).Err)
	_, err = own.add("b")
	require.ErrorContains(t, err, "drains")
	close(work.may)
	require.EqualValues(t, 1, (<-own.end).Stats.Admitted)

	bare := serve(t, "-j1", &fakeWork{})
	require.EqualError(t, bare.Add(&control.Addition{Values: values}, nil),
		"it takes commands, not values")
	bare.drain(t)
}

// TestFeedCommands: a command keeps its directory and its environment, and equal
// environments share their memory.
func TestFeedCommands(t *testing.T) {
	work := &fakeWork{}
	s := serve(t, "-j1 --key {}", work)
	key := task.Bytes("mine")
	for i := range 4 {
		a := &control.Addition{Command: []task.Bytes{"echo", "{}", "\xff"}, Dir: "/tmp", Env: []task.Bytes{"A=1", "B=\xff"}}
		switch i {
		case 2:
			a.Env = nil
		case 3:
			a.Command, a.Values, a.Lines, a.Key = nil, []task.Bytes{"echo $A", "# none", "ls"}, true, &key
		}
		require.NoError(t, s.Add(a, func([]uint64) {}))
	}
	s.drain(t)
	ran := work.ran
	require.Len(t, ran, 5)
	require.Equal(t, []string{"echo", "{}", "\xff"}, ran[0].Argv)
	require.Equal(t, "echo '{}' '\xff'", ran[0].Key)
	for _, tk := range ran {
		require.True(t, tk.Bare)
		require.Equal(t, "/tmp", tk.Dir)
	}
	require.Equal(t, []string{"A=1", "B=\xff"}, ran[0].Env)
	require.Same(t, &ran[0].Env[0], &ran[1].Env[0])
	require.Same(t, &ran[0].Env[0], &ran[4].Env[0])
	require.Empty(t, ran[2].Env)
	require.Equal(t, []string{"/bin/sh", "-c", "echo $A"}, ran[3].Argv)
	require.Equal(t, []string{"ls"}, ran[4].Argv)
	require.Equal(t, "mine", ran[4].Key)
}

// TestFeedRetries: a task that failed runs again under a number of its own, and the
// next task has the number after that.
func TestFeedRetries(t *testing.T) {
	work := &fakeWork{}
	s := serve(t, "-j1 run {}", work)
	_, err := s.add("fail", "ok")
	require.NoError(t, err)
	failed := func(id uint64) bool {
		return s.Do(task.Command{Op: task.Explain, IDs: []uint64{id}}).Wheres[0].Outcome == task.Exit
	}
	crewtest.Until(t, func() bool { return failed(1) }, "the failure")
	reply := s.Do(task.Command{Op: task.Retry, IDs: []uint64{1, 2, 9}})
	require.Equal(t, []uint64{3}, reply.IDs)
	require.Error(t, reply.Err)
	ids, err := s.add("more")
	require.NoError(t, err)
	require.Equal(t, []uint64{4}, ids)
	require.EqualValues(t, 4, s.drain(t).Stats.Admitted)
	require.Equal(t, []string{"run", "fail"}, work.ran[2].Argv)
	require.EqualValues(t, 3, work.ran[2].ID)
}

// TestFeedGoesOn: what was added and did not run is there in the next crew serve, and
// numbers go on.
func TestFeedGoesOn(t *testing.T) {
	dir := t.TempDir() + "/state"
	work := &fakeWork{may: make(chan struct{})}
	s := serve(t, "-j1 --state "+dir, work)
	a := &control.Addition{Command: []task.Bytes{"fail", "\xff"}, Dir: "/tmp", Env: []task.Bytes{"A=1"}}
	for range 3 {
		require.NoError(t, s.Add(a, func([]uint64) {}))
	}
	require.NoError(t, s.Do(task.Command{Op: task.Drain}).Err)
	require.Error(t, s.Add(a, func([]uint64) { t.Error("told") }))
	close(work.may)
	end := <-s.end
	require.EqualValues(t, 2, end.Stats.Of(task.NotRun))

	work = &fakeWork{}
	s = serve(t, "-j1 --state "+dir, work)
	ids, err := s.add("ok")
	require.NoError(t, err)
	require.Equal(t, []uint64{4}, ids)
	require.Equal(t, 2, s.left)
	reply := s.Do(task.Command{Op: task.Retry, IDs: []uint64{1}})
	require.NoError(t, reply.Err)
	require.Equal(t, []uint64{5}, reply.IDs, "a failed task of the earlier crew serve")
	s.drain(t)
	var ran []uint64
	for _, tk := range work.ran {
		ran = append(ran, tk.ID)
		if tk.ID != 4 {
			require.Equal(t, []string{"fail", "\xff"}, tk.Argv)
			require.Equal(t, []string{"A=1"}, tk.Env)
			require.Equal(t, "/tmp", tk.Dir)
			require.True(t, tk.Bare)
		}
	}
	require.Equal(t, []uint64{2, 3, 4, 5}, ran)

	work = &fakeWork{}
	s = serve(t, "-j1 --state "+dir, work)
	ids, err = s.add("ok")
	require.NoError(t, err)
	require.Equal(t, []uint64{6}, ids)
	require.Zero(t, s.left)
	s.drain(t)
	require.Len(t, work.ran, 1)
}

// TestFeedTakesBack: what is recorded when the run begins to drain is refused, and
// does not run later.
func TestFeedTakesBack(t *testing.T) {
	dir := t.TempDir() + "/state"
	s := serve(t, "-j1 --state "+dir, &fakeWork{})
	_, err := s.add("first")
	require.NoError(t, err)
	s.turn.Lock()
	do := s.do
	s.do = func(cmd task.Command) task.Reply {
		if len(cmd.Tasks) > 0 {
			do(task.Command{Op: task.Drain})
		}
		return do(cmd)
	}
	s.turn.Unlock()
	_, err = s.add("late")
	require.Error(t, err)
	<-s.end

	work := &fakeWork{}
	s = serve(t, "-j1 --state "+dir, work)
	ids, err := s.add("next")
	require.NoError(t, err)
	require.Equal(t, []uint64{3}, ids)
	require.Zero(t, s.left)
	s.drain(t)
	require.Len(t, work.ran, 1)
}
