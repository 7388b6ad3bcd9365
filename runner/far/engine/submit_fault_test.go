package engine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
	"crew/runner/steer/control"
)

// ok requires that all of n tasks succeeded and showed their record.
func (r *testRun) ok(n int) {
	r.t.Helper()
	e := r.wait()
	require.Equal(r.t, int64(n), e.Stats.ByOutcome[task.OK], "%+v", e)
	for id := range uint64(n) {
		require.Equal(r.t, fmt.Sprintln(id+1), r.outputs[id+1])
	}
}

// TestLostAttempts: a worker loses attempts in several ways, and they run again.
func TestLostAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		tasks, lost int
		lose        func(*fake, *Attempt)
	}{
		"given back, more often than a task may be lost": {1, 10, func(f *fake, a *Attempt) {
			require.Equal(t, 1, a.Number)
			f.end(a, func(fin *Final) { fin.Outcome = task.Lost })
		}},
		"a part of the output is missing": {2, 2, func(f *fake, a *Attempt) {
			f.end(a, func(fin *Final) { fin.Stdout.Blob = travel.Blob{Name: "none", Size: 5} })
		}},
		"the output is shorter than announced": {1, 1, func(f *fake, a *Attempt) {
			f.says(a, "one\ntwo\n")
			f.end(a, func(fin *Final) { fin.Stdout.Text, fin.Stdout.Size = []byte("one\n"), 20 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *broker) {
				var n atomic.Int32
				b.worker("a", 2, func(f *fake, a *Attempt) {
					if n.Add(1) > int32(c.lost) {
						answer(f, a)
						return
					}
					c.lose(f, a)
				})
				r := b.run(c.tasks, nil)
				r.ok(c.tasks)
				require.Equal(t, c.lost, r.lost)
			})
		})
	}
}

func TestOutputAsItComes(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		var out, errs crewtest.Output
		b.worker("a", 1, func(f *fake, a *Attempt) {
			require.True(t, a.Live)
			f.says(a, "one\n")
			crewtest.Until(t, func() bool { return out.String() == "one\n" }, "the first line")
			f.end(a, func(fin *Final) {
				fin.Outcome, fin.Exit = task.Exit, status(1)
				fin.Stdout.Text, fin.Stderr.Text = []byte("one\ntwo\n"), []byte("why\n")
			})
		})
		r := b.run(1, func(s *wiring.Call) {
			s.Plan.Show = task.ShowLines
			s.Open = func(task.Attempt) (io.WriteCloser, io.WriteCloser) { return &out, &errs }
		})
		r.wait()
		require.Equal(t, "one\ntwo\n", out.String())
		require.Equal(t, "why\n", errs.String())
		require.Equal(t, "why\n", string(r.results[1].Tail))
		require.Nil(t, r.results[1].Stdout)
	})
}

// TestLongInput: tasks whose standard input is too long for a message. On a distant connection more and
// more of it is in transit at once.
func TestLongInput(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.over = b.line(300 * time.Millisecond)
		in, began := bytes.Repeat([]byte("x"), 3<<20), time.Now()
		b.worker("a", 1, func(f *fake, a *Attempt) {
			require.Equal(t, a.Task > 1, bytes.Equal(in, a.Stdin))
			answer(f, a)
		})
		r, err := b.tryRun(&records{n: 3, change: func(t *task.Task) {
			if t.ID > 1 {
				t.Stdin = in
			}
		}}, nil)
		require.NoError(t, err)
		r.ok(3)
		require.Less(t, time.Since(began), 15*time.Second)
		require.Zero(t, r.x.s.blobs.Count(), "they are let go")
	})
}

// A run that all workers refuse fails with the reason.
func TestRefusingWorkers(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		r := b.run(5, func(s *wiring.Call) { s.Engine.Reach = 30 * time.Second })
		time.Sleep(time.Second)
		other, s := Presence{Queue: "q", Version: Version, ID: "=.w", Host: "w", Slots: 1, TTL: fakeTTL, State: ready, Job: Job{Template: "ab", Command: "make {}"}}, b.connect(nil)
		for len(r.ending) == 0 {
			require.NoError(t, s.publishJSON(presenceSubject("q", other.ID), other))
			time.Sleep(time.Second)
		}
		require.ErrorContains(t, r.wait().Err, "worker w runs make {}, not true '{}'")
	})
}

// When a lost worker reappears, messages to it are not dropped along with messages to the lost one.
func TestWorkerIsThereAfterAll(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		w := b.worker("a", 1, func(*fake, *Attempt) {})
		r := b.run(1, nil)
		find := func() *remoteWorker {
			r.x.roster.mu.RLock()
			defer r.x.roster.mu.RUnlock()
			return r.x.roster.workers[w.presence.ID]
		}
		crewtest.Until(t, func() bool { return find() != nil }, "the worker")
		lost := find()
		w.silent.Store(true)
		for range 5 { // as if this process were suspended again and again
			time.Sleep(time.Second)
			r.x.roster.mu.Lock()
			r.x.roster.lastCheck = r.x.roster.lastCheck.Add(-time.Minute)
			r.x.roster.mu.Unlock()
		}
		require.Nil(t, find())
		w.silent.Store(false)
		crewtest.Until(t, func() bool { return find() != nil }, "the same worker")
		there := make(chan bool, 1)
		r.x.attempts.send(find(), encode(kindOrder, &AttemptOrder{}), func() { there <- true })
		r.x.attempts.sendOrder(lost, ID{}, opRecorded)
		crewtest.Receive(t, there, "an answer")

		_, err := w.s.nc.SubscribeSync("hung") // an order does not wait for attempts that are not answered
		require.NoError(t, err)
		hung, began := &remoteWorker{tasks: "hung", ctx: t.Context()}, time.Now()
		for range 2 {
			r.x.attempts.send(hung, make([]byte, outbox.Piece), func() {})
		}
		time.Sleep(time.Second / 2)
		r.x.attempts.sendOrder(find(), ID{Run: "x"}, opKill)
		for (<-w.orders).Run != "x" {
		}
		require.Less(t, time.Since(began), time.Second)
		r.run.Do(task.Command{Op: task.Kill})
		r.wait()
	})
}

// underRun is a real worker, and a submitter whose run uses it.
type underRun struct {
	*modelWorker
	s *session
}

func (b *broker) realWorker(ttl time.Duration) underRun {
	m := &model{T: b.t, broker: b, rand: crewtest.Rand(b.t, 0), ttl: ttl, running: map[string]int{}, begun: map[int]int{}, whole: map[int]int{}, latest: map[string]int{}}
	return underRun{m.worker(), b.connect(nil)}
}

// atWorker calls test with a worker, which it drains after the end of the run.
func atWorker(t *testing.T, ttl time.Duration, test func(*testing.T, underRun)) {
	inTime(t, func(t *testing.T, b *broker) {
		w := b.realWorker(ttl)
		test(t, w)
		w.beat(Heartbeat{Epoch: 1, Over: true})
		w.drain()
	})
}

// attempt returns an attempt at a task.
func (w underRun) attempt(n int) *Attempt {
	return &Attempt{ID: ID{"run", 1, uint64(n), 1, 1}, Token: Token{byte(n), w.s.user[0]}, Template: w.crew.digest, Records: [][]string{{fmt.Sprint(n)}}, Trip: travel.Trip{User: w.s.user}}
}

// give gives the worker an attempt at a task.
func (w underRun) give(n int) *Attempt {
	a, id := w.attempt(n), ""
	crewtest.Until(w.model.T, func() bool {
		w.crew.mu.Lock()
		defer w.crew.mu.Unlock()
		if w.crew.lease != nil {
			id = w.crew.lease.id
		}
		return id != ""
	}, "the worker")
	given := make(chan bool, 1)
	outbox.New(w.s.requester).Send(w.model.Context(), taskSubject("q", id, w.s.user, "run"), encode(kindAttempt, a), func() { given <- true })
	crewtest.Receive(w.model.T, given, "an answer")
	return a
}

// beat sends a heartbeat of the run.
func (w underRun) beat(b Heartbeat) {
	b.Run = "run"
	require.NoError(w.model, w.s.heartbeat(heartbeatSubject("q", w.s.user), b))
}

// silence has the worker hear nothing from the run for some time.
func (w underRun) silence(since time.Duration) {
	w.crew.mu.Lock()
	w.crew.runs[runKey(w.s.user, "run")].heard -= since
	w.crew.mu.Unlock()
	time.Sleep(300 * time.Millisecond)
}

// ends returns a channel that receives the ends of the run's attempts.
func (w underRun) ends() chan *Final {
	ends := make(chan *Final, 10)
	_, err := w.s.serveMessages(resultSubject(w.s.user, "run", allWorkers), func(_ string, data []byte) {
		if fin, err := decode[Final](data, kindFinal); err == nil {
			ends <- fin
		}
	})
	require.NoError(w.model, err)
	return ends
}

func (w underRun) drain() {
	w.run.Do(task.Command{Op: task.Drain})
	<-w.over
}

// A run can end while the outbox of a worker is full of its results.
func TestEndOfRunWithFullOutbox(t *testing.T) {
	atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
		w.give(6)
		w.give(7) // it waits for its turn
		time.Sleep(time.Second)
		w.crew.mu.Lock()
		w.crew.out.Send(w.crew.runs[runKey(w.s.user, "run")].ctx, resultSubject(w.s.user, "run", "w"), make([]byte, 64<<20), func() {})
		w.crew.mu.Unlock()
		w.beat(Heartbeat{Epoch: 1, Over: true})
		since := time.Now()
		w.crew.out.Flush()
		require.Less(t, time.Since(since), time.Second)
	})
}

// A user who knows the ID of a run can neither take it over nor end it, before it begins or later.
func TestRunOfAnother(t *testing.T) {
	atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
		eve := underRun{w.modelWorker, w.model.connect(nil)}
		eve.s.user = "eve"
		attack := func() {
			_, err := eve.s.ask(t.Context(), orderSubject("q", w.crew.lease.id, eve.s.user), Order{Op: opLeave, Run: "run", Epoch: maxEpoch})
			require.NoError(t, err)
			eve.beat(Heartbeat{Epoch: 9, Over: true})
		}
		eve.give(1)
		attack()
		ends := w.ends()
		w.give(1)
		attack()
		require.Equal(t, task.OK, crewtest.Receive(t, ends, "the end of the attempt").Outcome)
	})
}

// A client of crew ctl on another machine gets the last replies of a run that ends meanwhile.
func TestLastReplies(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		r := b.run(1, func(c *wiring.Call) {
			c.ServeClient = func(l control.Link) { _, _ = l.Write([]byte("bye\n")); _ = l.Close() }
		})
		s := b.connect(nil)
		talk := func(turn uint64, said string) string {
			a, err := s.ask(t.Context(), runSubject(s.user, r.x.id.Run), Order{Op: opTalk, Client: "c", Turn: turn, Data: []byte(said)})
			require.NoError(t, err)
			return string(a.Data)
		}
		require.Empty(t, talk(1, "watch\n"))
		r.run.Do(task.Command{Op: task.Stop})
		time.Sleep(time.Second)
		require.Equal(t, "bye\n", talk(2, ""))
		talk(0, "")
		r.wait()
	})
}

// A run that reappears learns that an attempt is lost once that has ended.
func TestLostOnceEnded(t *testing.T) {
	atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
		w.give(4)
		time.Sleep(100 * time.Millisecond)
		w.silence(time.Minute)
		ends := w.ends()
		w.beat(Heartbeat{Epoch: 1})
		crewtest.Receive(t, ends, "the end of the attempt")
		require.Zero(t, w.model.running[keyOf(4)])
	})
}

// In a cluster, a worker kills the tasks of a run that has sent no heartbeat for most of a lease, even
// if the worker has changed servers meanwhile. A run sends enough of them for each lease.
func TestCluster(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.stop()
		b.cluster = "c"
		b.start()
		r := b.run(6, nil)
		w := b.realWorker(time.Second)
		r.wait()
		require.Zero(t, r.lost)
		w.give(6)
		time.Sleep(300 * time.Millisecond)
		w.line.cut(0)
		time.Sleep(450 * time.Millisecond)
		require.Empty(t, w.run.Do(task.Command{Op: task.Look}).Snapshot.Tasks)
		w.drain()
	})
}

// A worker whose connection is lost while it announces itself, for the first time or later, does so again as
// soon as it is connected again.
func TestRenewalInterrupted(t *testing.T) {
	atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
		heard := make(chan *nats.Msg, 100)
		_, err := w.s.nc.ChanSubscribe(presenceSubject("q", allWorkers), heard)
		require.NoError(t, err)
		for range 2 {
			w.line.hold(true)
			w.crew.renewSoon()
			time.Sleep(100 * time.Millisecond)
			before := len(heard)
			w.line.cut(0)
			time.Sleep(time.Second)
			require.Greater(t, len(heard), before)
		}
	})
}

// An attempt that comes before the first lease is confirmed runs under it, even if the connection breaks
// meanwhile.
func TestAttemptBeforeConfirmation(t *testing.T) {
	atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
		heard, ends := make(chan *nats.Msg, 100), w.ends()
		_, err := w.s.nc.ChanSubscribe(presenceSubject("q", allWorkers), heard)
		require.NoError(t, err)
		m := crewtest.Receive(t, heard, "the worker")
		p, _ := parsePresence(m.Subject, m.Data)
		require.NoError(t, w.s.nc.Publish(taskSubject("q", p.ID, w.s.user, "run"), encode(kindAttempt, w.attempt(1))))
		time.Sleep(2 * w.line.delay)
		w.line.cut(0)
		require.Equal(t, task.OK, crewtest.Receive(t, ends, "the end of the attempt").Outcome)
	})
}

// A run waits for its first worker. A worker whose lease was lost says so when it is back, and its tasks
// start again.
func TestNextLease(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		r := b.run(6, nil)
		time.Sleep(time.Second)
		w := b.realWorker(time.Minute)
		begun := time.Now()
		time.Sleep(time.Second)
		w.line.cut(45 * time.Second)
		r.wait()
		require.Less(t, time.Since(begun), 50*time.Second)
		w.drain()
	})
}

// A worker that loses its lease does not confirm that the attempts of a run have ended. It leaves no lock.
func TestLeaveWithoutLease(t *testing.T) {
	atWorker(t, time.Second, func(t *testing.T, w underRun) {
		w.give(4)
		time.Sleep(100 * time.Millisecond)
		time.AfterFunc(100*time.Millisecond, func() { w.line.hold(true) })
		time.AfterFunc(time.Second, func() { w.line.hold(false) })
		a, err := w.s.ask(t.Context(), orderSubject("q", w.crew.lease.id, w.s.user), Order{Op: opLeave, Run: "run", Epoch: 2})
		require.NoError(t, err)
		require.NotEmpty(t, a.Err)
		path := filepath.Join(t.TempDir(), "lock")
		w.crew.hostLock, err = lockFile(path, os.O_CREATE)
		require.NoError(t, err)
		w.crew.s.nc.Close()
		w.crew.announceGone()
		require.NoFileExists(t, path)
	})
}

// A run that reappears learns that its attempts were ended while it was silent, even if that happens
// twice. A suspended run may be silent for longer.
func TestSilentRun(t *testing.T) {
	for suspended, silence := range map[bool]time.Duration{false: time.Minute, true: suspendedFor + time.Minute} {
		atWorker(t, 8*time.Second, func(t *testing.T, w underRun) {
			a := w.give(1)
			beat := func() {
				w.beat(Heartbeat{Epoch: 1, Suspended: suspended})
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Second)
			for _, since := range []time.Duration{time.Minute, silence, silence} {
				beat()
				w.silence(since)
				w.crew.mu.Lock()
				held := w.crew.beforeEpochLocked(runKey(w.s.user, "run"), maxEpoch)[0]
				w.crew.mu.Unlock()
				require.Equal(t, since < silence, held.Records != nil, "the attempt is kept while its run may be suspended")
			}
			w.silence(2 * suspendedFor)
			ends := w.ends()
			beat()
			fin := crewtest.Receive(t, ends, "the end of the attempt")
			require.Equal(t, task.Lost, fin.Outcome)
			require.Equal(t, a.Token, fin.Token)
		})
	}
}

// A run that cannot store the output of a task reports that.
func TestNoRoom(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.worker("a", 1, func(f *fake, a *Attempt) {
			f.says(a, "one\n")
			go func() {
				for (<-f.orders).Op != opKill {
				}
				f.end(a, func(fin *Final) { fin.Outcome, fin.Exit, fin.Stdout.Text = task.Cancelled, nil, []byte("one\n") })
			}()
		})
		r := b.run(1, func(s *wiring.Call) { s.Plan.Show, s.Store = task.ShowBlocks, spool.New(0, "/nowhere") })
		require.ErrorContains(t, r.wait().Err, "its output is incomplete: keep output in /nowhere")
		require.False(t, r.results[1].Final, "it can run again")
	})
}
