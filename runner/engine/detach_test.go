package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	d, err := newDispatcher(func(notice func(string)) (*session, error) { return b.connect(notice), nil }, quiet)
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

// Nothing is handed over to workers that would not run it.
func TestHandOverIsRefused(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.worker("w1", 1, nil)
		other := testCommand
		other.Words = []string{"another"}
		_, err := handOver(wiring.HandOver{Place: wiring.Place{Queue: "q"}, Load: wiring.Load{Command: other}, Notice: quiet}, b.connect(nil), nil)
		require.ErrorContains(t, err, "worker w1 runs ")
	})
}

func TestDetach(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		const n = 100
		orders := fifoOrders
		orders.Failure = cli.Failure{Retries: 2, RetryOn: cli.RetryOn{Any: true}}
		run := b.handsOver(n, orders, nil)
		s := b.connect(nil)
		_, err := attach(wiring.Attachment{Run: "other", Notice: quiet}, b.connect(nil))
		require.ErrorContains(t, err, "there is no run other")

		big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
		b.worker("h", 8, func(f *fake, a *Attempt, m jetstream.Msg) {
			fin := f.final(a)
			fin.Stdout = []byte(a.Records[0][0] + "\n")
			switch a.Task {
			case 1: // forged
				forged := *fin
				forged.Token[3]++
				forged.Stdout, forged.StdoutLen = []byte("forged"), 6
				f.publish(a, forged.Encode())
				f.publish(a, []byte("garbage"))
			case 2: // it fails for good
				fin.Outcome, fin.Exit = task.Exit, status(3)
			case 3:
				f.says(a, Chunk{Data: big[:chunkSize]})
				f.says(a, Chunk{Data: big[:chunkSize]}) // again
				f.says(a, Chunk{Offset: chunkSize, Data: big[chunkSize:]})
				fin.Stdout, fin.StdoutLen = []byte("end"), int64(len(big))
			case 4: // it fails at first
				if a.Number == 1 {
					fin.Outcome, fin.Exit, fin.Stdout = task.Exit, status(1), []byte("failed\n")
				}
			}
			fin.StdoutLen += int64(len(fin.Stdout))
			f.publish(a, fin.Encode())
			f.publish(a, fin.Encode())
			_ = m.Ack()
		})
		a, got, r := b.attach("nightly")
		b.dispatches()
		e := r.Wait()
		require.NoError(t, e.Err)
		require.Equal(t, int64(n-1), e.Stats.Of(task.OK))
		require.Equal(t, 3, got.results[2].Code)
		require.Equal(t, 3, got.results[2].Attempt)
		require.Equal(t, string(big)+"end", got.outputs[3])
		require.Equal(t, 2, got.results[4].Attempt)
		for _, id := range []uint64{1, 4, n} {
			require.Equal(t, fmt.Sprintln(id), got.outputs[id])
			require.Equal(t, []string{"true", fmt.Sprint(id)}, got.results[id].Argv)
			require.Equal(t, "h", got.results[id].Host)
		}
		crewtest.Until(t, func() bool { code, _ := a.Ended(); return code == 123 }, "the end of the run")
		require.NoError(t, a.Forget())
		require.NoError(t, a.Close())
		_, err = attach(wiring.Attachment{Run: run, Notice: quiet}, b.connect(nil))
		require.ErrorContains(t, err, "there is no run "+run)
		for _, name := range []string{tasksStream, resultsStream, storedStream} {
			require.Zero(t, s.messages(t, name), name)
		}
	})
}

// One dispatcher after the other goes on with a run: each task has one result, those of a key
// in their order, and what has ended does not run again.
func TestDispatcherIsReplaced(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		const n, keys = 120, 5
		orders := fifoOrders
		orders.Sched.Policy = "keyed"
		var mu sync.Mutex
		ran, last := map[uint64]int{}, map[string]uint64{}
		half := make(chan struct{})
		work := func(f *fake, a *Attempt, m jetstream.Msg) {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			if ran[a.Task]++; len(ran) == n/2 && ran[a.Task] == 1 {
				close(half)
			}
			if a.Task < last[a.Key] {
				t.Errorf("task %d of key %s after %d", a.Task, a.Key, last[a.Key])
			}
			last[a.Key] = a.Task
			mu.Unlock()
			text := []byte(a.Records[0][0] + "\n")
			f.says(a, Chunk{Data: text})
			f.end(a, func(fin *Final) { fin.StdoutLen = int64(len(text)) })
			_ = m.Ack()
		}
		b.worker("a", 2, work)
		b.worker("b", 2, work)
		run := b.handsOver(n, orders, func(t *task.Task) { t.Key = fmt.Sprint(t.ID % keys) })
		stop := b.dispatches()
		crewtest.Receive(t, half, "half of the tasks")
		stop()
		b.dispatches()
		_, got, r := b.attach(run)
		e := r.Wait()
		require.NoError(t, e.Err)
		require.Equal(t, int64(n), e.Stats.Of(task.OK))
		require.EqualValues(t, 2, b.record(run).Epoch, "by which workers are told to end what is left")
		again := 0
		mu.Lock()
		defer mu.Unlock()
		for id := uint64(1); id <= n; id++ {
			require.Equal(t, fmt.Sprintln(id), got.outputs[id])
			again += ran[id] - 1
		}
		require.LessOrEqual(t, again, 8, "what was in flight")
	})
}

// record returns the record of a run.
func (b *broker) record(run string) (e Enrolment) {
	s := b.connect(nil)
	defer s.close()
	require.NoError(b.t, s.records(b.t.Context(), runsBucket, "q."+run, func(_ string, v []byte, _ time.Duration) {
		require.NoError(b.t, json.Unmarshal(v, &e))
	}))
	return e
}

// A run that --halt has paused says so, and waits with another dispatcher, too.
func TestHaltedRunIsPaused(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		var ran atomic.Int32
		b.worker("w", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
			ran.Add(1)
			f.end(a, func(fin *Final) {
				if a.Task == 1 {
					fin.Outcome, fin.Exit = task.Exit, status(1)
				}
			})
			_ = m.Ack()
		})
		orders := fifoOrders
		orders.Failure.Halt = cli.Halt{When: "pause", On: "fail", N: 1}
		run := b.handsOver(100, orders, nil)
		stop := b.dispatches()
		crewtest.Until(t, func() bool { return b.record(run).Paused }, "the pause")
		n := ran.Load()
		require.Less(t, n, int32(100))
		stop()
		b.dispatches()
		crewtest.Until(t, func() bool { e := b.record(run); return e.Epoch == 2 && e.Paused }, "the pause")
		require.Equal(t, n, ran.Load())
		require.NoError(t, b.connect(nil).steer(&wiring.EngineCall{Verb: opResume, Operand: run}))
		crewtest.Until(t, func() bool { return b.record(run).State == runDone }, "the end of the run")
		require.Equal(t, int32(100), ran.Load())
	})
}

func openLedger(s *session, r *Enrolment) (*ledger, error) {
	l := newLedger(s, "q", r, &once{notice: quiet})
	return l, l.open()
}

// A dispatcher that another one has replaced, although it does not know yet, decides nothing.
func TestLedgerIsFenced(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		run := b.handsOver(3, fifoOrders, nil)
		s := b.connect(nil)
		st, err := s.find(t.Context(), run)
		require.NoError(t, err)
		st.TTL = dispatchTTL
		first, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		ended := func(id uint64, o task.Outcome, kind task.Kind) task.Event {
			return task.Event{Kind: kind, ID: id, Attempt: 1, Result: &task.Result{Outcome: o, Code: 3}}
		}
		require.NoError(t, first.Consume([]task.Event{ended(1, task.OK, task.Finished), ended(2, task.Exit, task.Retried)}))
		second, err := openLedger(s, &st.Enrolment)
		require.NoError(t, err)
		require.Equal(t, uint64(2), second.identity.Epoch)
		require.ErrorIs(t, first.Consume([]task.Event{ended(3, task.OK, task.Finished)}), errTaken)
		require.NoError(t, second.Consume([]task.Event{ended(3, task.OK, task.Finished)}))

		last := uint64(0)
		next := func() *task.Task {
			x, err := second.Next(func() uint64 { last++; return last })
			require.NoError(t, err)
			return x
		}
		require.Equal(t, task.OK, next().Done.Outcome)
		x := next()
		require.Nil(t, x.Done)
		require.Equal(t, 1, x.Attempts)
		require.EqualValues(t, 1, x.Failures)
		require.Equal(t, []string{"true", "2"}, x.Argv)
		require.Nil(t, next().Done, "it has ended since")
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

func TestAttachCancelled(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		run := b.handsOver(2, fifoOrders, func(t *task.Task) {
			if t.ID == 1 {
				t.Err = errors.New("it holds a NUL")
			}
		})
		b.worker("idle", 1, func(*fake, *Attempt, jetstream.Msg) {})
		_, got, r := b.attach(run)
		ending := make(chan core.Ending, 1)
		go func() { ending <- r.Wait() }()
		stop := b.dispatches()
		crewtest.Until(t, func() bool { got.mu.Lock(); defer got.mu.Unlock(); return got.results[1] != nil }, "the result of task 1")
		require.ErrorContains(t, got.results[1].Err, "it holds a NUL")
		stop()
		s := b.connect(nil)
		require.NoError(t, s.steer(&wiring.EngineCall{Verb: opCancel, Operand: run}))
		e := <-ending
		require.ErrorContains(t, e.Err, "was cancelled")
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

// What a task has written and how it has ended while no dispatcher was there counts.
func TestNoDispatcherMeanwhile(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		given := make(chan *Attempt, 8)
		w := b.worker("w", 1, func(_ *fake, a *Attempt, m jetstream.Msg) {
			given <- a
			_ = m.Ack()
		})
		run := b.handsOver(1, fifoOrders, nil)
		stop := b.dispatches()
		a := crewtest.Receive(t, given, "the attempt")
		stop()
		w.says(a, Chunk{Data: []byte("first, ")})
		w.end(a, func(fin *Final) { fin.Stdout, fin.StdoutLen = []byte("last"), 11 })
		_, err := w.s.js.Publish(t.Context(), resultSubject("q", "=.w", "other"), nil) // those before it are stored, too
		require.NoError(t, err)
		b.dispatches()
		_, got, r := b.attach(run)
		require.NoError(t, r.Wait().Err)
		require.Equal(t, "first, last", got.outputs[1])
		require.Equal(t, 1, got.results[1].Attempt)
	})
}
