package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// ok requires that all of n tasks succeeded and showed their record.
func (r *testRun) ok(n int) {
	r.t.Helper()
	e := r.wait()
	require.Equal(r.t, int64(n), e.Stats.Of(task.OK), "%+v", e)
	for id := range uint64(n) {
		require.Equal(r.t, fmt.Sprintln(id+1), r.outputs[id+1])
	}
}

func TestSilentWorker(t *testing.T) {
	b := newBroker(t)
	a := b.worker("a", 2, func(f *fake, _ *Attempt, m jetstream.Msg) { f.silent.Store(true) })
	r := b.run(20, nil)
	r.said("worker a is lost")
	b.worker("b", 2, answer)
	r.ok(20)
	require.Equal(t, 2, r.lost)
	require.NotEmpty(t, a.orders, "in case it is there after all")
}

func TestGoneWorker(t *testing.T) {
	b := newBroker(t)
	var first atomic.Uint64
	a := b.worker("a", 2, func(f *fake, at *Attempt, m jetstream.Msg) {
		if first.CompareAndSwap(0, at.Task) { // the result of the first one is in the stream before the worker is gone
			answer(f, at, m)
			_, err := f.s.js.Publish(t.Context(), resultSubject("q", f.presence.ID, "other"), nil) // that one is stored, too
			require.NoError(t, err)
			return
		}
		f.put(gone)
		f.silent.Store(true)
	})
	r := b.run(20, nil)
	crewtest.Until(t, a.silent.Load, "the worker to fall silent")
	b.worker("b", 2, answer)
	r.ok(20)
	require.Equal(t, "a", r.results[first.Load()].Host)
	for _, res := range r.results {
		for _, before := range res.Before {
			require.True(t, before.Unbegun)
		}
	}
}

// faltering has a stream of results that does not say which its last message is, until somebody
// asks again.
type faltering struct {
	jetstream.JetStream
	before func() // it answers
	asked  atomic.Bool
}

func (f *faltering) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := f.JetStream.Stream(ctx, name)
	if name == resultsStream && err == nil {
		s = lastOf{s, f}
	}
	return s, err
}

type lastOf struct {
	jetstream.Stream
	*faltering
}

func (s lastOf) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if !s.asked.Swap(true) {
		return nil, errNoAnswer
	}
	s.before()
	return s.Stream.GetLastMsgForSubject(ctx, subject)
}

// A result that a worker had in the stream when it went counts, though it cannot be read at once.
func TestGoneWorkersResult(t *testing.T) {
	b := newBroker(t)
	f := &faltering{}
	b.change = func(s *session) { f.JetStream, s.js = s.js, f }
	var once sync.Once
	b.worker("a", 1, func(w *fake, a *Attempt, m jetstream.Msg) {
		once.Do(func() {
			f.before = func() {
				answer(w, a, m)
				_, err := w.s.js.Publish(t.Context(), resultSubject("q", w.presence.ID, "other"), nil) // that one is stored, too
				require.NoError(t, err)
			}
			w.put(gone)
			w.silent.Store(true)
		})
	})
	r := b.run(1, nil)
	r.ok(1)
	require.Zero(t, r.lost)
	require.True(t, f.asked.Load())
}

// TestLostAttempts has a worker lose attempts in several ways: they run again.
func TestLostAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		tasks, lost int
		lose        func(*fake, *Attempt)
	}{
		"given back, more often than a task may be lost": {1, 10, func(f *fake, a *Attempt) {
			f.end(a, func(fin *Final) { fin.Outcome = task.Lost })
		}},
		"a part of the output is missing": {2, 2, func(f *fake, a *Attempt) { f.end(a, func(fin *Final) { fin.StdoutLen = 5 }) }},
		"forgotten, as after a power cut": {1, 1, func(f *fake, _ *Attempt) { f.forgets.Store(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			var n atomic.Int32
			b.worker("a", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
				if n.Add(1) > int32(c.lost) {
					answer(f, a, m)
					return
				}
				c.lose(f, a)
				_ = m.Ack()
			})
			r := b.run(c.tasks, nil)
			r.ok(c.tasks)
			require.Equal(t, c.lost, r.lost)
		})
	}
}

func TestForgedResults(t *testing.T) {
	b := newBroker(t)
	b.worker("a", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
		f.end(a, func(bad *Final) { bad.Token[0]++ })
		f.end(a, func(bad *Final) { bad.Epoch++ })
		f.end(a, func(bad *Final) { bad.Number++ })
		f.end(a, func(bad *Final) { bad.Run = "other" })
		other := f.final(a).Encode()
		other[2]++ // the version
		f.publish(a, other)
		f.publish(a, []byte("garbage"))
		f.publish(a, nil)
		c := &Chunk{ID: a.ID, Token: a.Token, Offset: 7, Data: []byte("x")}
		c.Token[3]++
		f.publish(a, c.Encode())
		for range 2 { // the second counts no more
			answer(f, a, m)
		}
	})
	r := b.run(50, nil)
	r.ok(50)
	require.Zero(t, r.lost)
}

func TestOrders(t *testing.T) {
	b := newBroker(t)
	given := make(chan *Attempt, 10)
	a := b.worker("a", 4, func(f *fake, a *Attempt, m jetstream.Msg) { given <- a; _ = m.Ack() })
	r := b.run(4, nil)
	byTask := map[uint64]*Attempt{}
	for range 4 {
		got := <-given
		byTask[got.Task] = got
	}
	require.Empty(t, r.run.Do(task.Command{Op: task.Cancel, IDs: []uint64{1, 2}}).Err)
	seen := map[string]bool{}
	for len(seen) < 4 { // TERM, and then KILL after a second
		o := <-a.orders
		seen[fmt.Sprint(o.Op, o.Task)] = true
		require.Equal(t, r.x.run, o.Run)
	}
	require.Equal(t, map[string]bool{"cancel1": true, "cancel2": true, "kill1": true, "kill2": true}, seen)
	a.end(byTask[1], func(fin *Final) { fin.Outcome, fin.Signal = task.Cancelled, 9 })
	a.end(byTask[2], func(*Final) {})
	a.end(byTask[3], func(fin *Final) { fin.Outcome = task.Cancelled }) // nobody asked for that: the worker ends
	a.end(byTask[4], func(fin *Final) { fin.Outcome, fin.Error = task.Cancelled, "cancelled by crew ctl on a" })
	again := <-given
	require.Equal(t, uint64(3), again.Task)
	require.Equal(t, 2, again.Number)
	a.end(again, func(fin *Final) {
		fin.Outcome, fin.Exit, fin.Error, fin.Duration = task.Exit, status(3), "why", task.Seconds(time.Hour)
	})
	e := r.wait()
	require.Equal(t, int64(2), e.Stats.Of(task.Cancelled))
	require.EqualError(t, r.results[4].Err, "cancelled by crew ctl on a")
	require.True(t, r.results[4].Final, "it was not the end of the run")
	require.Equal(t, task.OK, r.results[2].Outcome, "it had ended by itself")
	require.Equal(t, 3, r.results[3].Code)
	require.Equal(t, time.Hour, r.results[3].Duration())
}

func TestFullStream(t *testing.T) {
	l := diskLimits
	l.tasks = 3
	b := newBroker(t, l)
	b.worker("a", 20, answer)
	b.run(200, nil).ok(200)
}

// TestBrokerRestarts has the server die and start again, again and again, while
// workers take their time.
func TestBrokerRestarts(t *testing.T) {
	b := newBroker(t)
	b.ackWait = 5 * time.Second // a message that was on its way to a worker is lost with the connection
	var done atomic.Int32
	slow := func(f *fake, a *Attempt, m jetstream.Msg) {
		for time.Sleep(5 * time.Millisecond); ; time.Sleep(50 * time.Millisecond) {
			fin := f.final(a)
			shows(a.Records[0][0] + "\n")(fin)
			_, err := f.s.js.Publish(t.Context(), resultSubject("q", f.presence.ID, a.Run), fin.Encode())
			if err == nil {
				done.Add(1)
				_ = m.Ack()
				return
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		w := b.worker(name, 8, slow)
		w.mu.Lock()
		w.presence.TTL = 30 * time.Second
		w.mu.Unlock()
		w.put(ready)
	}
	r := b.run(300, nil)
	for i := range int32(3) {
		crewtest.Until(t, func() bool { return done.Load() >= 50*(i+1) }, "50 tasks")
		b.stop()
		b.start()
	}
	r.ok(300)
	require.Zero(t, r.lost)
}

func TestLongOutputs(t *testing.T) {
	l := diskLimits
	l.storage, l.results = jetstream.MemoryStorage, 8<<20
	b := newBroker(t, l)
	const chunkSize = 32 << 10
	long := bytes.Repeat([]byte("0123456789abcdef"), chunkSize/16)
	sizes := []int64{0, 2 << 20, 12 << 20}
	b.worker("a", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
		var n int64
		size := sizes[a.Task-1]
		for ; n < size; n += chunkSize {
			c := &Chunk{ID: a.ID, Token: a.Token, Stderr: a.Task == 2, Offset: n, Data: long}
			for { // the stream may be full for a moment
				if _, err := f.s.js.Publish(t.Context(), resultSubject("q", f.presence.ID, a.Run), c.Encode()); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		f.end(a, func(fin *Final) {
			if fin.StdoutLen = size; a.Task == 2 {
				fin.StdoutLen, fin.StderrLen = 0, size
			}
		})
		_ = m.Ack()
	})
	digests := map[uint64]int64{}
	r := b.run(3, nil, func(res *task.Result) {
		for _, o := range []task.Output{res.Stdout, res.Stderr} {
			if o != nil {
				n, err := o.WriteTo(io.Discard)
				require.NoError(t, err)
				digests[res.Task.ID] += n
			}
		}
		if res.Task.ID == 2 {
			require.Nil(t, res.Stdout)
		}
	})
	e := r.wait()
	require.Equal(t, int64(3), e.Stats.Of(task.OK))
	require.Equal(t, map[uint64]int64{2: sizes[1], 3: sizes[2]}, digests)
}

func TestOutputAsItComes(t *testing.T) {
	b := newBroker(t)
	var out, errs crewtest.Output
	b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
		require.True(t, a.Live)
		f.says(a, Chunk{Data: []byte("one\n")})
		crewtest.Until(t, func() bool { return out.String() == "one\n" }, "the first line")
		f.end(a, func(fin *Final) {
			fin.Outcome, fin.Exit = task.Exit, status(1)
			fin.Stdout, fin.StdoutLen, fin.Stderr, fin.StderrLen = []byte("two\n"), 8, []byte("why\n"), 4
		})
		_ = m.Ack()
	})
	r := b.run(1, func(s *wiring.Submission) {
		s.Plan.Show = task.ShowLines
		s.Open = func(task.Attempt) (io.WriteCloser, io.WriteCloser) { return &out, &errs }
	})
	r.wait()
	require.Equal(t, "one\ntwo\n", out.String())
	require.Equal(t, "why\n", errs.String())
	require.Equal(t, "why\n", string(r.results[1].Tail))
	require.Nil(t, r.results[1].Stdout)
}

// TestLongInput has tasks whose standard input is too long for a message.
func TestLongInput(t *testing.T) {
	b := newBroker(t)
	in := bytes.Repeat([]byte("x"), 3<<20)
	b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
		require.Equal(t, in, a.Stdin)
		answer(f, a, m)
	})
	r, err := b.tryRun(&records{n: 2, change: func(t *task.Task) { t.Stdin = in }}, nil)
	require.NoError(t, err)
	r.ok(2)
	s := b.connect(nil)
	objects, err := s.js.ObjectStore(t.Context(), filesBucket)
	require.NoError(t, err)
	_, err = objects.List(t.Context())
	require.ErrorIs(t, err, jetstream.ErrNoObjectsFound, "they are removed")
}

func TestRefusedWorkers(t *testing.T) {
	b := newBroker(t)
	_, err := b.tryRun(&records{}, nil)
	require.NoError(t, err, "workers may come later")
	w := b.worker("a", 2, answer)
	other := func(s *wiring.Submission) { s.Command.Words = []string{"false"} }
	_, err = b.tryRun(&records{}, other)
	require.EqualError(t, err, "worker a runs true '{}', not false: write the same command here and there")
	for _, c := range []struct {
		change func(*Presence)
		want   string
	}{
		{func(p *Presence) { p.Template, p.Command = "", "" }, "worker a has no command of its own: start it with crew worker ... -- true '{}', or give this run --sign FILE"},
		{func(p *Presence) { p.Version++ }, fmt.Sprintf("worker a speaks version %d of crew's wire format, this is version %d: install the same crew on all machines", Version+1, Version)},
	} {
		w.mu.Lock()
		was := w.presence
		c.change(&w.presence)
		require.NoError(t, w.store())
		_, err = b.tryRun(&records{}, nil)
		w.presence = was
		w.mu.Unlock()
		require.EqualError(t, err, c.want)
	}
	w.put(ready)
	b.worker("b", 2, answer)
	r := b.run(5, nil)
	r.ok(5)
}

func TestNoWorkers(t *testing.T) {
	b := newBroker(t)
	r := b.run(5, nil)
	r.said("no worker of queue q is there")
	w := b.worker("a", 2, answer)
	require.NotNil(t, w)
	r.ok(5)
	_, err := Submit(wiring.Submission{Place: wiring.Place{URL: "nats://127.0.0.1:1"}})
	require.ErrorContains(t, err, "--sign FILE")
}

func TestSubmitterOrders(t *testing.T) {
	b := newBroker(t)
	r := b.run(5, nil)
	s := b.connect(nil)
	look := func() *task.Snapshot { return r.run.Do(task.Command{Op: task.Look}).Snapshot }
	crewtest.Until(t, func() bool { return look().Queued == 5 }, "the tasks to be read")
	ask := func(op string) string {
		m, err := s.nc.Request(runSubject("q", r.x.run), Order{Op: op}.encode(), 10*time.Second)
		require.NoError(t, err)
		return string(m.Data)
	}
	require.Equal(t, `{}`, ask("pause"))
	require.Equal(t, task.Paused, look().State)
	require.Equal(t, `{}`, ask("resume"))
	require.Contains(t, ask("dance"), "there is no order")
	require.Equal(t, `{}`, ask("cancel"))
	e := r.wait()
	require.Equal(t, int64(5), e.Stats.Of(task.NotRun))
}

// TestRunNeverMade has a run fail to begin after its executor was made.
func TestRunNeverMade(t *testing.T) {
	b := newBroker(t)
	b.worker("a", 1, answer)
	asked := make(chan struct{})
	sub := wiring.Submission{
		Place: wiring.Place{Queue: "q"}, Load: wiring.Load{Command: testCommand}, Notice: func(string) {},
		Do: func(task.Command) task.Reply { close(asked); select {} },
	}
	x := &submitter{maker: makerOf(&sub.Load, false)}
	require.NoError(t, x.start(sub, b.connect(nil)))
	<-asked
	require.NoError(t, x.Close())
}

// An object that somebody has put in the place of a long message is not taken for it.
func TestLongMessageReplaced(t *testing.T) {
	b := newBroker(t)
	s := b.connect(nil)
	id := ID{"run", 1, 2, 3}
	long := bytes.Repeat([]byte("x"), maxBody+1)
	msg, big, err := s.pack(t.Context(), id, long)
	require.NoError(t, err)
	require.True(t, big)
	got, err := s.unpack(t.Context(), msg)
	require.NoError(t, err)
	require.Equal(t, long, got)
	long[7]++
	require.NoError(t, s.objects.Put(t.Context(), bodyOf(id), bytes.NewReader(long)))
	_, err = s.unpack(t.Context(), msg)
	require.ErrorIs(t, err, errGarbage)
}
