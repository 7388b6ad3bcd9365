package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// die has the submitter vanish without a word, as kill -9 has it.
func (r *testRun) die() {
	r.x.s.nc.Close()
	r.run.Do(task.Command{Op: task.Kill})
	r.x.cancel()
	r.wait()
}

func inDir(dir string) func(*wiring.Submission) {
	return func(s *wiring.Submission) { s.Dir = dir }
}

// TestNextEpoch has a submitter die while two results are in the stream and one is
// not.
func TestNextEpoch(t *testing.T) {
	b := newBroker(t)
	dir := t.TempDir()
	var count [4]atomic.Int32
	hold, held := make(chan struct{}), make(chan struct{})
	var later atomic.Bool
	given := make(chan ID, 10)
	w := b.worker("a", 3, func(f *fake, a *Attempt, m jetstream.Msg) {
		count[a.Task].Add(1)
		if !later.Load() {
			given <- a.ID
			go func() { // these come when the submitter is gone
				<-hold
				if a.Task < 3 {
					f.says(a, Chunk{Data: []byte(a.Records[0][0])})
					f.end(a, func(fin *Final) { fin.Stdout, fin.StdoutLen = []byte("\n"), 2 })
				} else {
					f.says(a, Chunk{Data: []byte("partial")})
				}
				_ = m.Ack()
				_, err := f.s.js.Publish(t.Context(), resultSubject("q", f.presence.ID, "other"), nil) // those before it are stored, too
				require.NoError(t, err)
				held <- struct{}{}
			}()
			return
		}
		answer(f, a, m)
	})
	r := b.run(3, inDir(dir))
	for range 3 {
		require.Equal(t, r.x.run, (<-given).Run)
	}
	r.die()
	later.Store(true)
	close(hold)
	for range 3 {
		<-held
	}
	// One who knows the run but no token finds nobody who believes him.
	forged := &Final{ID: ID{r.x.run, 1, 3, 1}, Facts: task.Facts{Outcome: task.OK}, Stdout: []byte("3\n"), StdoutLen: 2}
	forged.Identity[0], forged.Identity[1] = 1, 3
	w.publish(&Attempt{ID: forged.ID}, forged.Encode())

	again := b.run(3, inDir(dir))
	require.Equal(t, r.x.run, again.x.run)
	require.Equal(t, uint64(2), again.x.epoch)
	again.ok(3)
	require.Equal(t, opLeave, (<-w.orders).Op)
	require.Equal(t, []int32{1, 1, 2}, []int32{count[1].Load(), count[2].Load(), count[3].Load()}, "a result in the stream is enough")

	anew := b.run(3, func(s *wiring.Submission) { s.Dir, s.Anew = dir, true })
	require.NotEqual(t, r.x.run, anew.x.run)
	anew.ok(3)
}

// TestLeaseOfAnEpoch has a worker of an earlier epoch that does not answer: its lease
// must end before its tasks start elsewhere.
func TestLeaseOfAnEpoch(t *testing.T) {
	b := newBroker(t)
	dir := t.TempDir()
	given := make(chan struct{}, 10)
	a := b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) { given <- struct{}{} })
	r := b.run(1, inDir(dir))
	<-given
	r.die()
	a.ignores.Store(true)
	at := time.Now()
	r = b.run(1, inDir(dir))
	b.worker("b", 1, answer)
	time.AfterFunc(500*time.Millisecond, func() { a.silent.Store(true) })
	r.ok(1)
	require.Greater(t, time.Since(at), fakeTTL)
	require.Equal(t, "b", r.results[1].Host)
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), engineFile)
	id := newIdentity()
	require.NoError(t, id.save(path))
	again, err := readIdentity(path)
	require.NoError(t, err)
	require.Equal(t, id, again)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the tokens come from it")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, bad := range []string{
		"", "\n", "x", strings.Replace(string(text), engineVersion, "crew-engine-1", 1), strings.Replace(string(text), ":1,", `:"1",`, 1),
		string(text[:len(text)-3]), strings.Replace(string(text), id.Run, "a.b", 1),
	} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := readIdentity(path)
		require.ErrorContains(t, err, path, "%q", bad)
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	m := mark{most: 100}
	first := func(want uint64, size int64) {
		t.Helper()
		seq, n := m.first()
		require.Equal(t, []any{want, size}, []any{seq, n})
	}
	first(1, 0)
	m.pass(3, 10)
	first(4, 10)
	a, b := &held{seq: 5}, &held{seq: 7}
	m.hold(a)
	m.pass(5, 10)
	m.pass(6, 10)
	m.hold(b)
	m.pass(7, 10)
	first(5, 10)
	b.done = true
	first(5, 10)
	a.done = true
	first(8, 40)
	m.forget(40)
	first(8, 0)
	c := &held{seq: 9}
	m.hold(c)
	m.pass(9, 101)
	first(10, 101) // too much: it is given up
	require.Empty(t, m.open)
}

// TestPurge has results that are on record leave the stream while the run goes on.
func TestPurge(t *testing.T) {
	b := newBroker(t)
	last := make(chan *Attempt, 1)
	w := b.worker("a", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
		if a.Task == 20 {
			last <- a
		} else {
			answer(f, a, m)
		}
	})
	r := b.run(20, inDir(t.TempDir()))
	a := <-last
	s := b.connect(nil)
	left := func() uint64 { return s.messages(t, resultsStream) }
	crewtest.Until(t, func() bool { return left() == 0 }, "the results to be taken")
	w.says(a, Chunk{Data: []byte("20")})
	require.NoError(t, w.s.nc.Flush())
	r.run.Do(task.Command{Op: task.Drain})
	w.end(a, func(fin *Final) { fin.Stdout, fin.StdoutLen = []byte("\n"), 3 })
	r.ok(20)
	require.Zero(t, left())
}

// TestHeartbeats has the workers hear of a run until it is over.
func TestHeartbeats(t *testing.T) {
	b := newBroker(t)
	s := b.connect(nil)
	beats := make(chan Heartbeat, 100)
	_, err := s.nc.Subscribe(heartbeatSubject("q"), func(m *nats.Msg) {
		var b Heartbeat
		require.NoError(t, json.Unmarshal(m.Data, &b))
		beats <- b
	})
	require.NoError(t, err)
	require.NoError(t, s.nc.Flush())
	r := b.run(1, nil)
	want := Heartbeat{Version: Version, Run: r.x.run, Epoch: 1}
	require.Equal(t, want, <-beats)
	kv, err := s.js.KeyValue(t.Context(), runsBucket)
	require.NoError(t, err)
	var e Enrolment
	crewtest.Until(t, func() bool {
		entry, err := kv.Get(t.Context(), "q."+r.x.run)
		return err == nil && json.Unmarshal(entry.Value(), &e) == nil
	}, "the run to enrol")
	require.Equal(t, "running", e.State)
	require.Equal(t, os.Getpid(), e.PID)
	r.x.Suspend()
	want.Suspended = true
	for <-beats != want {
	}
	r.x.Resume()
	want.Suspended = false
	for <-beats != want { // some may have come before
	}
	b.worker("a", 1, answer)
	r.ok(1)
	want.Over = true
	for <-beats != want {
	}
	_, err = kv.Get(t.Context(), "q."+r.x.run)
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
}
