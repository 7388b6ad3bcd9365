package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/crewtest"
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
	d, err := newDispatcher(func(notice func(string)) (*session, error) { return b.dial(notice, way) }, quiet)
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

func openLedger(s *session, r *Enrolment) (*ledger, error) {
	l := newLedger(s, "q", r, &once{notice: quiet})
	return l, l.open()
}

// What was decided of a run is known to the next dispatcher.
func TestLedger(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		run := b.handsOver(3, fifoOrders, nil)
		s := b.connect(nil)
		st, err := s.find(t.Context(), run)
		require.NoError(t, err)
		first, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		ended := func(id uint64, o task.Outcome, kind task.Kind) task.Event {
			return task.Event{Kind: kind, ID: id, Attempt: 1, Result: &task.Result{Outcome: o, Code: 3}}
		}
		require.NoError(t, first.Consume([]task.Event{ended(1, task.OK, task.Finished), ended(2, task.Exit, task.Retried)}))
		second, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		require.Equal(t, uint64(2), second.identity.Epoch)
		require.NoError(t, second.Consume([]task.Event{ended(3, task.OK, task.Finished)}))

		// What comes late of an attempt that was counted, or once more, is not believed.
		third, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		for id, wanted := range map[ID]bool{
			{Task: 1, Number: 1}: false, {Task: 2, Number: 1}: false, {Task: 2, Number: 2}: true, {Task: 3, Number: 2}: false, {Task: 4, Number: 1}: false, {Number: 1}: false,
		} {
			require.Equal(t, wanted, third.wants(id), "%v", id)
		}

		last := uint64(0)
		next := func() *task.Task {
			x, err := third.Next(func() uint64 { last++; return last })
			require.NoError(t, err)
			return x
		}
		require.Equal(t, task.OK, next().Done.Outcome)
		x := next()
		require.Nil(t, x.Done)
		require.Equal(t, 1, x.Attempts)
		require.EqualValues(t, 1, x.Failures)
		require.Equal(t, []string{"true", "2"}, x.Argv)
		require.Equal(t, task.OK, next().Done.Outcome, "of the second")
	})
}

func TestHandOverWithdrawn(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
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
		s := b.connect(nil)
		now, err := s.look(t.Context())
		require.NoError(t, err)
		require.Empty(t, now.Runs)
		for _, name := range []string{storedStream, filesStream} {
			require.Zero(t, s.messages(t, name), name)
		}
	})
}

// A ruling about an attempt with very many messages is an object, and many rulings are several
// messages.
func TestLongRulings(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		const n = 3000
		run := b.handsOver(n, fifoOrders, nil)
		s := b.connect(nil)
		st, err := s.find(t.Context(), run)
		require.NoError(t, err)
		l, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		parts := make([]Place, 200_000)
		for i := range parts {
			parts[i] = Place{Seq: uint64(i + 1_000_000), At: i % 100}
		}
		l.brought[attemptKey{1, 1}], l.brought[attemptKey{1, 2}] = &brought{1, parts[1:]}, &brought{1, parts}
		events := []task.Event{{Kind: task.Retried, ID: 1, Attempt: 1, Result: &task.Result{Outcome: task.Exit, Code: 1}}}
		for id := range uint64(n) {
			events = append(events, task.Event{
				Kind: task.Finished, ID: id + 1, Attempt: 2, Result: &task.Result{Outcome: task.StartFailed, Err: errors.New(strings.Repeat("x", 500))},
			})
		}
		require.NoError(t, l.Consume(events))
		again, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		require.Equal(t, task.StartFailed, again.past[n].outcome)
		require.Equal(t, decided{attempts: 2, failures: 1, outcome: task.StartFailed}, again.past[1])
		a, _, _ := b.attach(run)
		crewtest.Until(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.ruled[n].Seq > 0 }, "the last ruling")
		r, err := a.ruling(a.ruled[1])
		require.NoError(t, err)
		require.Equal(t, parts, r.Parts)
		require.NoError(t, a.Forget())
		require.Zero(t, s.messages(t, filesStream))
		require.NoError(t, a.Close())
	})
}
