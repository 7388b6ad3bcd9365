package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/core"
	"crew/runner/crewtest"
	"crew/runner/proc"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/runner/wiring"
	"crew/sched"
)

// carry makes a run with an executor of this package.
func carry(t *testing.T, remote bool, source runner.Source, exec runner.Executor, sinks ...runner.Sink) *runner.Run {
	t.Helper()
	policy, err := sched.New(sched.Config{Name: "fifo"})
	require.NoError(t, err)
	r, err := runner.New(core.Config{
		Pool: core.Pool{Workers: 4, Remote: remote}, Queue: core.Queue{Policy: policy, Buffer: 64}, Order: core.Order{Keep: true, Window: 1 << 20},
		Limit: core.Limit{KillAfter: time.Minute}, // a run that is told to stop waits for slow answers
	}, source, exec, nil, sinks)
	require.NoError(t, err)
	return r
}

// handsOver submits tasks with --detach, and returns what is printed and how that ended.
func (b *broker) handsOver(source runner.Source, do func(*runner.Run)) (printed string, e core.Ending) {
	var out bytes.Buffer
	made := make(chan struct{})
	var r *runner.Run
	d, err := detach(wiring.Submission{
		Place: wiring.Place{Queue: "q", Name: "nightly"}, Load: wiring.Load{Command: testCommand}, Notice: quiet, Detach: true, Out: &out,
		Do: func(c task.Command) task.Reply { <-made; return r.Do(c) },
	}, b.connect(nil))
	require.NoError(b.t, err)
	defer d.Close()
	r = carry(b.t, true, source, d, d.Sink())
	close(made)
	if do != nil {
		go do(r)
	}
	e = r.Wait()
	return strings.TrimSpace(out.String()), e
}

// Nothing is handed over to workers that would not run it.
func TestDetachIsRefused(t *testing.T) {
	b := newBroker(t)
	b.worker("w1", 1, nil)
	other := testCommand
	other.Words = []string{"another"}
	_, err := detach(wiring.Submission{Place: wiring.Place{Queue: "q"}, Load: wiring.Load{Command: other}, Notice: quiet}, b.connect(nil))
	require.ErrorContains(t, err, "worker w1 runs ")
	d, err := detach(wiring.Submission{
		Place: wiring.Place{Queue: "q"}, Load: wiring.Load{Command: testCommand}, Notice: quiet, Do: func(task.Command) task.Reply { return task.Reply{} },
	}, b.connect(nil))
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// shared takes tasks that any worker may run, as workers do, and gives them to run in
// an order of its own.
func (b *broker) shared(n int, run func(f *fake, a *Attempt, m jetstream.Msg)) {
	f := &fake{t: b.t, s: b.connect(nil), queue: "q", presence: Presence{ID: "any", Host: "h"}}
	defer f.s.close()
	c, err := f.s.js.CreateOrUpdateConsumer(context.Background(), tasksStream, jetstream.ConsumerConfig{
		Durable: "any-q", FilterSubject: taskSubject("q", anyone, ">"), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
	})
	require.NoError(b.t, err)
	batch, err := c.Fetch(n)
	require.NoError(b.t, err)
	var list []jetstream.Msg
	for m := range batch.Messages() {
		list = append(list, m)
	}
	require.Len(b.t, list, n)
	rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, m := range list {
		a, err := DecodeAttempt(m.Data())
		require.NoError(b.t, err)
		run(f, a, m)
	}
	require.NoError(b.t, f.s.nc.Flush())
}

// final is fake.final for what any worker could take.
func sharedFinal(f *fake, a *Attempt) *Final {
	fin := f.final(a)
	fin.Records, fin.Argv = a.Records, []string{"echo", a.Records[0][0]}
	return fin
}

func (b *broker) attach(run string) (*attached, *collect) {
	store := spool.New(1<<20, b.t.TempDir())
	b.t.Cleanup(func() { store.Close() })
	a, err := attach(wiring.Attachment{Run: run, Outputs: proc.Outputs{Store: store}, Notice: quiet}, b.connect(nil))
	require.NoError(b.t, err)
	return a, &collect{results: map[uint64]*task.Result{}, outputs: map[uint64]string{}}
}

func TestDetach(t *testing.T) {
	b := newBroker(t)
	const n = 100
	run, e := b.handsOver(&records{n: n}, nil)
	require.Equal(t, int64(n), e.Stats.Of(task.OK))
	_, err := attach(wiring.Attachment{Run: "other", Notice: quiet}, b.connect(nil))
	require.ErrorContains(t, err, "there is no run other")

	// Half of the results are there, the others come while somebody waits for them.
	big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	work := func(f *fake, a *Attempt, m jetstream.Msg) {
		fin := sharedFinal(f, a)
		switch a.Task {
		case 1: // forged
			forged := *fin
			forged.Token[3]++
			forged.Stdout, forged.StdoutLen = []byte("forged"), 6
			f.publish(a, forged.Encode())
			f.publish(a, []byte("garbage"))
		case 2:
			fin.Outcome, fin.Exit = task.Exit, status(3)
		case 3: // a worker that was lost has sent a part
			for _, off := range []int{0, 0, chunkSize} {
				c := &Chunk{ID: a.ID, Token: a.Token, Offset: int64(off), Data: big[off:min(off+chunkSize, len(big))]}
				if off == 0 {
					c.Data = c.Data[:chunkSize]
				}
				f.publish(a, c.Encode())
			}
			f.publish(a, (&Chunk{ID: a.ID, Token: a.Token, Stderr: true, Data: []byte("lost")}).Encode())
			fin.Stdout, fin.StdoutLen = []byte("end"), int64(len(big)+3)
		}
		if a.Task != 3 {
			fin.Stdout = []byte(a.Records[0][0] + "\n")
			fin.StdoutLen = int64(len(fin.Stdout))
		}
		f.publish(a, fin.Encode())
		f.publish(a, fin.Encode())
		_ = m.Ack()
	}
	b.shared(n/2, work)
	a, got := b.attach("nightly")
	r := carry(t, false, a, a, got)
	b.shared(n/2, work)
	e = r.Wait()
	require.NoError(t, e.Err)
	require.Equal(t, int64(n-1), e.Stats.Of(task.OK))
	require.Equal(t, 3, got.results[2].Code)
	require.Equal(t, string(big)+"end", got.outputs[3])
	require.Nil(t, got.results[3].Stderr)
	for _, id := range []uint64{1, 4, n} {
		require.Equal(t, fmt.Sprintln(id), got.outputs[id])
		require.Equal(t, []string{"echo", fmt.Sprint(id)}, got.results[id].Argv)
		require.Equal(t, "h", got.results[id].Host)
	}
	require.NoError(t, a.Forget())
	require.NoError(t, a.Close())
	_, err = attach(wiring.Attachment{Run: run, Notice: quiet}, b.connect(nil))
	require.ErrorContains(t, err, "there is no run "+run)
	s := b.connect(nil)
	for _, name := range []string{tasksStream, resultsStream} {
		require.Zero(t, s.messages(t, name), name)
	}
}

func TestDetachWithdrawn(t *testing.T) {
	b := newBroker(t)
	stop := make(chan struct{})
	run, e := b.handsOver(&records{n: 1 << 30, change: func(t *task.Task) {
		if t.ID == 200 {
			close(stop)
		}
	}}, func(r *runner.Run) {
		<-stop
		r.Do(task.Command{Op: task.Stop})
	})
	require.NoError(t, e.Err)
	require.Empty(t, run)
	s := b.connect(nil)
	st, err := s.look(t.Context())
	require.NoError(t, err)
	require.Empty(t, st.Runs)
	require.Empty(t, st.Queues)
}

func TestAttachCancelled(t *testing.T) {
	b := newBroker(t)
	run, e := b.handsOver(&records{n: 2, change: func(t *task.Task) {
		if t.ID == 1 {
			t.Err = errors.New("it holds a NUL")
		}
	}}, nil)
	require.Equal(t, int64(1), e.Stats.Of(task.StartFailed))
	a, got := b.attach(run)
	ending := make(chan core.Ending, 1)
	r := carry(t, false, a, a, got)
	go func() { ending <- r.Wait() }()
	crewtest.Until(t, func() bool { got.mu.Lock(); defer got.mu.Unlock(); return got.results[1] != nil }, "the result of task 1")
	require.ErrorContains(t, got.results[1].Err, "it holds a NUL")
	s := b.connect(nil)
	require.NoError(t, s.steer(&wiring.EngineCall{Verb: opCancel, Operand: run}))
	e = <-ending
	require.ErrorContains(t, e.Err, "was cancelled")
	require.NoError(t, a.Close())
}
