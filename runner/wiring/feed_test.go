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
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/control"
	"crew/runner/core"
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
	return &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK}
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
func serve(t testing.TB, line string, work runner.Executor, sinks ...runner.Sink) *served {
	o := parsed(t, strings.Fields("serve "+line)...)
	p, err := poolOf(o, "")
	require.NoError(t, err)
	src, err := openSource(o, p.jobs, nil, nil)
	require.NoError(t, err)
	policy, err := sched.New(sched.Config{Name: o.Sched.Policy})
	require.NoError(t, err)
	cfg := core.Config{
		Pool: core.Pool{Workers: p.jobs}, Queue: core.Queue{Policy: policy, Buffer: p.buffer, Terms: true, Caps: o.Terms.Caps},
		Retry: core.Retry{Jitter: func() float64 { return 0 }},
		Feed:  core.Feed{Open: true, MaxQueued: o.Serve.MaxQueued, Remember: true},
	}
	s := &served{end: make(chan core.Ending, 1)}
	w := &wiring{opts: o, plan: planOf(o), source: src, screen: sink.NewScreen(os.Stdout, os.Stderr), out: os.Stdout}
	require.NoError(t, w.openState())
	do := func(cmd task.Command) task.Reply { return s.run.Do(cmd) }
	s.feed = newFeed(src, w.state, do, func(left int) { s.left = left })
	var rec runner.Recorder
	if s.queue != nil {
		rec, sinks = s.queue, append(sinks, s.queue.Commit())
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
	_, err = s.Add(a, func(got []uint64) { ids = got })
	return ids, err
}

// drain lets the tasks run and waits for the end.
func (s *served) drain(t testing.TB) core.Ending {
	require.NoError(t, s.Do(task.Command{Op: task.Rest}).Err)
	return <-s.end
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

// TestFeedRefuses what crew ctl add does not send.
func TestFeedRefuses(t *testing.T) {
	words := []task.Bytes{"x"}
	for line, refused := range map[string]map[string]*control.Addition{
		"-j1 run {}": {"it takes values, not commands": {Command: words}, "there is nothing to add": {}},
		"-j1":        {"it takes commands, not values": {Values: words}},
	} {
		s := serve(t, line, &fakeWork{})
		for want, a := range refused {
			_, err := s.Add(a, func([]uint64) { t.Error("told") })
			require.EqualError(t, err, want)
		}
		require.Zero(t, s.drain(t).Stats.Admitted)
	}
}

// TestFeedCommands: the key of a command is its words, and equal environments share
// their memory.
func TestFeedCommands(t *testing.T) {
	work := &fakeWork{}
	s := serve(t, "-j1 --key {}", work)
	for range 2 {
		a := &control.Addition{Command: []task.Bytes{"echo", "{}", "\xff"}, Dir: "/tmp", Env: []task.Bytes{"A=1", "B=\xff"}}
		_, err := s.Add(a, func([]uint64) {})
		require.NoError(t, err)
	}
	s.drain(t)
	require.Equal(t, []string{"echo", "{}", "\xff"}, work.ran[0].Argv)
	require.Equal(t, "echo '{}' '\xff'", work.ran[0].Key)
	require.Equal(t, []string{"A=1", "B=\xff"}, work.ran[0].Env)
	require.Same(t, &work.ran[0].Env[0], &work.ran[1].Env[0])
}

// TestFeedLeavesTasks: what is recorded when the run begins to drain is left to the next one,
// unless the client waits for it: then it is refused, and does not run later.
func TestFeedLeavesTasks(t *testing.T) {
	dir := t.TempDir() + "/state"
	for _, draining := range []bool{false, true} {
		work := &fakeWork{}
		s := serve(t, "-j1 --state "+dir, work)
		_, err := s.add("first")
		require.NoError(t, err)
		s.turn.Lock()
		do := s.do
		if draining {
			do(task.Command{Op: task.Drain})
		}
		s.do = func(cmd task.Command) task.Reply {
			if len(cmd.Tasks) > 0 {
				do(task.Command{Op: task.Drain})
			}
			return do(cmd)
		}
		s.turn.Unlock()
		add := func(waits bool) (next bool, ids []uint64, err error) {
			a := &control.Addition{Command: []task.Bytes{"late"}, Waits: waits}
			next, err = s.Add(a, func(got []uint64) { ids = got })
			return next, ids, err
		}
		_, _, err = add(true)
		require.Error(t, err)
		next, ids, err := add(false)
		if err != nil { // the run is over by now
			require.Equal(t, errRunOver, err)
			<-s.end
			continue
		}
		require.True(t, next)
		<-s.end

		work = &fakeWork{}
		s = serve(t, "-j1 --state "+dir, work)
		own, err := s.add("next")
		require.NoError(t, err)
		require.Equal(t, ids[0]+1, own[0])
		s.drain(t)
		require.Equal(t, ids[0], work.ran[0].ID)
		require.Equal(t, []string{"late"}, work.ran[0].Argv)
		require.Len(t, work.ran, 2)
	}
}

// TestFeedIsChanged: what is done by hand with tasks that wait is known to the next run.
func TestFeedIsChanged(t *testing.T) {
	dir := t.TempDir() + "/state"
	work := &fakeWork{may: make(chan struct{})}
	s := serve(t, "-j1 --state "+dir, work)
	ids, err := s.add("first")
	require.NoError(t, err)
	for _, name := range []string{"second", "third", "fourth", "fifth"} {
		a := &control.Addition{Command: []task.Bytes{task.Bytes(name)}, Dir: "/tmp", Env: []task.Bytes{"A=1"}, Note: "n", Timeout: task.Seconds(time.Hour)}
		_, err := s.Add(a, func(got []uint64) { ids = append(ids, got...) })
		require.NoError(t, err)
	}
	require.NoError(t, s.Do(task.Command{Op: task.Hold, IDs: ids[3:4]}).Err)
	require.NoError(t, s.Do(task.Command{Op: task.Move, N: -1, IDs: ids[4:5]}).Err)
	require.NoError(t, s.Do(task.Command{Op: task.Drain}).Err)
	close(work.may)
	<-s.end

	work = &fakeWork{}
	s = serve(t, "-j1 --state "+dir, work)
	_, err = s.add("last")
	require.NoError(t, err)
	require.Equal(t, 4, s.left)
	held := s.run.Do(task.Command{Op: task.Explain, IDs: ids[3:4]}).Wheres[0]
	require.Equal(t, task.ByHold, held.Blocking.By)
	require.NoError(t, s.Do(task.Command{Op: task.Release, IDs: ids[3:4]}).Err)
	s.drain(t)
	var ran []string
	for _, tk := range work.ran {
		ran = append(ran, tk.Argv[0])
		if tk.Argv[0] != "last" {
			require.Equal(t, []string{"A=1"}, tk.Env)
			require.Equal(t, "n", tk.Terms().Note)
			require.Equal(t, time.Hour, tk.Timeout)
		}
	}
	require.ElementsMatch(t, []string{"fifth", "second", "third", "last", "fourth"}, ran)
	require.Equal(t, "fifth", ran[0])
}

// TestFeedTerms: what tasks take, and their priority, is that of the templates unless they are added
// with another; it outlasts the run and a retry. A later crew serve refuses what it lacks.
func TestFeedTerms(t *testing.T) {
	dir := t.TempDir() + "/state"
	const line = "-j1 --weight 2 --priority 3 --state "
	gpu := []task.Need{{Name: "gpu", N: 1}}
	work := &fakeWork{may: make(chan struct{})}
	s := serve(t, line+dir+" --cap gpu:7 --cap db=2 --needs gpu", work)
	_, err := s.add("first")
	require.NoError(t, err)
	low, env := -5, []task.Bytes{"A=1", "CREW_GPU=outer"}
	for _, name := range []task.Bytes{"second", "third"} {
		_, err = s.Add(&control.Addition{Command: []task.Bytes{name}, Priority: &low, Dir: "/tmp", Env: env}, func([]uint64) {})
		require.NoError(t, err)
	}
	require.NoError(t, s.Do(task.Command{Op: task.Drain}).Err)
	close(work.may)
	<-s.end
	require.Equal(t, &task.Terms{Priority: 3, Weight: 2, Needs: gpu}, work.ran[0].Asked)

	work = &fakeWork{}
	s = serve(t, line+dir+" --cap gpu=1 --needs gpu", work)
	s.drain(t)
	require.Len(t, work.ran, 2)
	require.ElementsMatch(t, []string{"second", "third"}, []string{work.ran[0].Argv[0], work.ran[1].Argv[0]})
	for _, tk := range work.ran {
		want := task.Terms{Priority: -5, Weight: 2, Needs: gpu}
		require.Equal(t, want, tk.Terms(), tk.Argv[0])
		require.Equal(t, []string{"A=1", "CREW_DB=", "CREW_GPU="}, tk.Env)
		require.Equal(t, want, tk.Again(9, 1).Terms())
	}
}

// TestFeedLacks: a task that an earlier crew serve has left cannot run without what it needs.
func TestFeedLacks(t *testing.T) {
	dir := t.TempDir() + "/state"
	work := &fakeWork{may: make(chan struct{})}
	s := serve(t, "-j1 --cap gpu=2 --needs gpu:2 --state "+dir, work)
	for range 2 {
		_, err := s.add("x")
		require.NoError(t, err)
	}
	require.NoError(t, s.Do(task.Command{Op: task.Drain}).Err)
	close(work.may)
	<-s.end

	work = &fakeWork{}
	end := serve(t, "-j1 --cap gpu=1 --needs gpu --state "+dir, work).drain(t)
	require.Empty(t, work.ran)
	require.EqualValues(t, 1, end.Stats.ByOutcome[task.StartFailed])
}
