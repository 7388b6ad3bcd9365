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

// TestFeedRefuses what crew ctl add does not send.
func TestFeedRefuses(t *testing.T) {
	words := []task.Bytes{"x"}
	for line, refused := range map[string]map[string]*control.Addition{
		"-j1 run {}": {"it takes values, not commands": {Command: words}, "there is nothing to add": {}},
		"-j1":        {"it takes commands, not values": {Values: words}},
	} {
		s := serve(t, line, &fakeWork{})
		for want, a := range refused {
			require.EqualError(t, s.Add(a, func([]uint64) { t.Error("told") }), want)
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
		require.NoError(t, s.Add(a, func([]uint64) {}))
	}
	s.drain(t)
	require.Equal(t, []string{"echo", "{}", "\xff"}, work.ran[0].Argv)
	require.Equal(t, "echo '{}' '\xff'", work.ran[0].Key)
	require.Equal(t, []string{"A=1", "B=\xff"}, work.ran[0].Env)
	require.Same(t, &work.ran[0].Env[0], &work.ran[1].Env[0])
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
