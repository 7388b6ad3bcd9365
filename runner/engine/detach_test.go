package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/crewtest"
	"crew/runner/journal"
	"crew/runner/proc"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/runner/wiring"
	"crew/sched"
)

var fifoOrders = wiring.Orders{Sched: cli.Sched{Policy: "fifo"}, Buffer: 64}

// handsOver hands n tasks over, and returns the run.
func (b *broker) handsOver(n int, orders wiring.Orders, change func(*task.Task)) (run string) {
	st, err := handOver(wiring.HandOver{
		Place: wiring.Place{Queue: "q", Name: "nightly"}, Load: wiring.Load{Command: testCommand}, Orders: orders, Notice: quiet,
	}, b.connect(nil), nil)
	require.NoError(b.t, err)
	source, last := &records{n: n, change: change}, uint64(0)
	for range n {
		task, err := source.Next(func() uint64 { last++; return last })
		require.NoError(b.t, err)
		require.NoError(b.t, st.Add(task))
	}
	run, err = st.Commit()
	require.NoError(b.t, err)
	return run
}

// dispatches starts a dispatcher. stop ends it.
func (b *broker) dispatches() (stop func()) {
	way := b.way()
	if b.runs == "" {
		b.runs = b.t.TempDir()
	}
	d, err := newDispatcher(func(notice func(string)) (*session, error) { return b.dial(notice, way) }, b.runs, 0, quiet)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.serve(ctx)
	}()
	stop = func() { cancel(); crewtest.Receive(b.t, ended, "the end of the dispatcher") }
	b.t.Cleanup(stop)
	return stop
}

// attach shows a run as crew engine attach does.
func (b *broker) attach(run string) (*attached, *collect, *runner.Run) {
	store := spool.New(1<<20, b.t.TempDir())
	b.t.Cleanup(func() { store.Close() })
	a, err := attach(wiring.Attachment{Run: run, Outputs: proc.Outputs{Store: store}, Notice: quiet}, b.connect(nil))
	require.NoError(b.t, err)
	got := &collect{results: map[uint64]*task.Result{}, outputs: map[uint64]string{}}
	policy, err := sched.New(sched.Config{Name: "fifo"})
	require.NoError(b.t, err)
	r, err := runner.New(core.Config{
		Pool: core.Pool{Workers: 4}, Queue: core.Queue{Policy: policy, Buffer: 64}, Order: core.Order{Keep: true, Window: 1 << 20},
	}, a, a, nil, []runner.Sink{got})
	require.NoError(b.t, err)
	return a, got, r
}

// What was decided of a run is known when it goes on, but not what a crash has left at the end of a file.
func TestLedger(t *testing.T) {
	d := &dispatcher{dir: t.TempDir(), most: 1 << 20, ctx: t.Context(), told: &once{notice: quiet}, runs: map[string]*ledger{}}
	record := handed{Enrolment: newEnrolment("q", "", "=", identity{Run: "r"})}
	record.Stocked = &Stocked{Tasks: 3}
	next := func() *ledger {
		l := d.ledger(record)
		require.NoError(t, l.open())
		return l
	}
	require.NoError(t, os.Mkdir(filepath.Join(d.dir, "r"), 0o700))
	var tasks []byte
	for id := range 3 {
		spec, err := journal.EncodeTask(&task.Task{Argv: []string{"true", strconv.Itoa(id + 1)}})
		require.NoError(t, err)
		tasks = fmt.Appendf(tasks, `{"spec":%s}`+"\n", spec)
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "r", tasksFile), tasks, 0o600))
	ended := func(id uint64, o task.Outcome, kind task.Kind) task.Event {
		return task.Event{Kind: kind, ID: id, Attempt: 1, Result: &task.Result{Outcome: o, Code: 3}}
	}
	require.NoError(t, next().Consume([]task.Event{ended(1, task.OK, task.Finished), ended(2, task.Exit, task.Retried)}))
	require.NoError(t, next().Consume([]task.Event{ended(3, task.OK, task.Finished)}))

	path := filepath.Join(d.dir, "r", rulingsFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(slices.Clone(whole), []byte("{\"task\":2,\"outcome\":\"ok\",\"ends\":true}\x00\n{")...), 0o600))
	l, last := next(), uint64(0)
	read := func() *task.Task {
		x, err := l.Next(func() uint64 { last++; return last })
		require.NoError(t, err)
		return x
	}
	require.Equal(t, task.OK, read().Done.Outcome)
	x := read()
	require.Nil(t, x.Done)
	require.Equal(t, 1, x.Attempts)
	require.EqualValues(t, 1, x.Failures)
	require.Equal(t, []string{"true", "2"}, x.Argv)
	require.Equal(t, task.OK, read().Done.Outcome, "of the second")
	require.NoError(t, l.Consume([]task.Event{ended(2, task.Exit, task.Finished)}))
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(now[:len(whole)]))
	require.Equal(t, 4, bytes.Count(now, []byte("\n")), "%s", now)
}

func TestHandOverWithdrawn(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.dispatches()
		st, err := handOver(wiring.HandOver{Place: wiring.Place{Queue: "q"}, Load: wiring.Load{Command: testCommand}, Orders: fifoOrders, Notice: quiet}, b.connect(nil), nil)
		require.NoError(t, err)
		long := bytes.Repeat([]byte("x"), maxBody)
		for id := range uint64(3) {
			require.NoError(t, st.Add(&task.Task{ID: id + 1, Argv: []string{"true"}, Stdin: long}))
		}
		n, err := st.Withdraw()
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		require.Error(t, st.Add(&task.Task{ID: 4, Stdin: long}))
		now, err := b.connect(nil).look(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, now.Runs)
		left, err := os.ReadDir(b.runs)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
