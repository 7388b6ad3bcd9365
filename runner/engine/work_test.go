package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// bench is the engine side of a test of crew worker: what a submitter would do.
type bench struct {
	t       *testing.T
	s       *session
	words   []string
	sum     [32]byte
	results chan any // *Chunk and *Final, in order
	last    uint64
}

func newBench(t *testing.T, url string, words ...string) *bench {
	s, err := connect(url, func(text string) { t.Log(text) })
	require.NoError(t, err)
	t.Cleanup(s.close)
	b := &bench{t: t, s: s, words: words, results: make(chan any, 10_000)}
	b.sum, _ = digest(wiring.Template{Words: words, Replace: "{}"})
	c, err := s.js.OrderedConsumer(t.Context(), resultsStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"crew.r.>"}})
	require.NoError(t, err)
	_, err = c.Consume(func(m jetstream.Msg) {
		for part := range parts(m.Data()) {
			if c, err := DecodeChunk(part); err == nil {
				b.results <- c
			} else if f, err := DecodeFinal(part); err == nil {
				b.results <- f
			}
		}
	})
	require.NoError(t, err)
	return b
}

// worker waits for a worker's record for which ok holds.
func (b *bench) worker(ok func(p *Presence) bool) (p *Presence) {
	b.t.Helper()
	kv, err := b.s.js.KeyValue(b.t.Context(), workersBucket)
	require.NoError(b.t, err)
	w, err := kv.WatchAll(b.t.Context())
	require.NoError(b.t, err)
	defer w.Stop()
	for end := time.Now().Add(crewtest.Patience); ; {
		require.True(b.t, time.Now().Before(end), "no such worker has come")
		e := crewtest.Receive(b.t, w.Updates(), "such a worker")
		p = &Presence{}
		if e != nil && json.Unmarshal(e.Value(), p) == nil && ok(p) {
			return p
		}
	}
}

func isReady(p *Presence) bool { return p.State == ready && p.Slots > 0 }

// attempt returns a new attempt with a value.
func (b *bench) attempt(value string) *Attempt {
	b.last++
	a := &Attempt{
		ID: ID{"run", 1, b.last, 1}, Slot: int(b.last), Template: b.sum, Records: [][]string{{value}}, KillAfter: 5 * time.Second,
	}
	copy(a.Token[:], fmt.Sprint("token ", b.last))
	return a
}

func (b *bench) give(worker string, a *Attempt) {
	b.t.Helper()
	_, err := b.s.js.Publish(b.t.Context(), taskSubject("default", worker, a.Run), a.Encode())
	require.NoError(b.t, err)
}

// final returns the next end of an attempt, and the chunks before it.
func (b *bench) final() (f *Final, chunks []*Chunk) {
	b.t.Helper()
	for {
		r := crewtest.Receive(b.t, b.results, "a result")
		if f, ok := r.(*Final); ok {
			return f, chunks
		}
		chunks = append(chunks, r.(*Chunk))
	}
}

// ends returns the end of an attempt, which is the next to end.
func (b *bench) ends(a *Attempt) *Final {
	b.t.Helper()
	f, _ := b.final()
	require.Equal(b.t, a.ID, f.ID, f.Error)
	return f
}

func (b *bench) allAcknowledged() {
	b.t.Helper()
	crewtest.Until(b.t, func() bool { return b.s.messages(b.t, tasksStream) == 0 }, "all tasks to be acknowledged")
}

func TestWorkerRunsItsOwnCommand(t *testing.T) {
	url := startHub(t)
	b := newBench(t, url, "printf", "got %s", "{}")
	w := crew(t, "worker", "--engine", url, "-j2", "-t", "--name", "w1", "--labels", "gpu", "printf", "got %s", "{}")
	p := b.worker(isReady)
	require.Equal(t, 2, p.Slots)
	require.Equal(t, "w1", p.Host)
	require.Equal(t, []string{"gpu"}, p.Labels)
	require.Equal(t, "printf 'got %s' '{}'", p.Command)

	b.give(p.ID, b.attempt("a  b"))
	f, chunks := b.final()
	require.Empty(t, chunks)
	require.Equal(t, "got a  b", string(f.Stdout))
	require.Equal(t, int64(8), f.StdoutLen)
	require.Equal(t, task.OK, f.Outcome)
	require.EqualValues(t, "w1", f.Host)
	w.Says(w.Stderr, "printf 'got %s' 'a  b'\n")

	for what, change := range map[string]func(a *Attempt){
		"command is not that": func(a *Attempt) { a.Template[0]++ },
		"runs no commands":    func(a *Attempt) { a.Argv = []string{"echo", "no"} },
		"own directory":       func(a *Attempt) { a.Dir = "/" },
		"own environment":     func(a *Attempt) { a.Env = []string{"PATH=/nowhere"} },
	} {
		a := b.attempt("x")
		change(a)
		b.give(p.ID, a)
		f, _ := b.final()
		require.Equal(t, task.StartFailed, f.Outcome)
		require.Contains(t, f.Error, what)
	}
	b.allAcknowledged()
	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)
	require.Equal(t, gone, b.worker(func(p *Presence) bool { return p.State == gone }).State)
}

// newWorker starts a worker that runs scripts, and returns the engine's side of it.
func newWorker(t *testing.T, url string, options ...string) (*bench, *crewtest.Process, *Presence) {
	t.Helper()
	obey := obeys(t)
	b := newBench(t, url, obey, "{}")
	return b, crew(t, slices.Concat([]string{"worker", "--engine", url}, options, []string{obey, "{}"})...), b.worker(isReady)
}

func TestWorkerSendsOutputThatIsWatched(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j1")
	dir := t.TempDir()
	a := b.attempt("printf one; until [ -e " + dir + "/go ]; do sleep 0.05; done; printf two")
	a.Live = true
	b.give(p.ID, a)
	c := (<-b.results).(*Chunk)
	require.Equal(t, "one", string(c.Data))
	touch(t, dir+"/go")
	f, chunks := b.final()
	for _, c := range chunks { // if the machine is slow
		require.Equal(t, "two", string(c.Data))
	}
	require.Equal(t, int64(6), f.StdoutLen)
}

func touch(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
}

func (b *bench) heartbeat(beat Heartbeat) {
	b.t.Helper()
	beat.Version = Version
	data, err := json.Marshal(beat)
	require.NoError(b.t, err)
	require.NoError(b.t, b.s.nc.Publish(heartbeatSubject("default"), data))
}

func TestWorkerIsKilled(t *testing.T) {
	b, w, p := newWorker(t, startHub(t), "-j1")
	dir := t.TempDir()
	b.give(p.ID, b.attempt("sleep 1000 & echo $! > "+dir+"/pid; wait"))
	pid := crewtest.PID(t, dir+"/pid")
	w.Send(syscall.SIGKILL)
	crewtest.Gone(t, pid)
}

func TestWorkerIsStopped(t *testing.T) {
	b, w, p := newWorker(t, startHub(t), "-j1", "--worker-ttl", "3s")
	dir := t.TempDir()
	b.give(p.ID, b.attempt("sleep 1000 & echo $! > "+dir+"/pid; wait"))
	pid := crewtest.PID(t, dir+"/pid")
	w.Send(syscall.SIGSTOP)
	last, passed := time.Now(), time.Duration(0) // while this machine did not stand still
	crewtest.Until(t, func() bool {
		now := time.Now()
		passed += min(now.Sub(last), 100*time.Millisecond)
		last = now
		return !crewtest.Alive(pid)
	}, "the end of process %d", pid)
	require.Less(t, passed, 3*time.Second, "its lease had not ended")
	w.Send(syscall.SIGCONT)
	again := b.worker(func(q *Presence) bool { return isReady(q) && q.ID != p.ID })
	b.give(again.ID, b.attempt("echo again"))
	f, _ := b.final()
	require.Equal(t, "again\n", string(f.Stdout), "it says nothing of what its lease did not cover")
	w.Says(w.Stderr, "its tasks are killed, and 1 task will start elsewhere")
}

func TestWorkerWithoutEngine(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	hub, url := startHubProcess(t, data, "")
	b, w, p := newWorker(t, url, "-j2", "--worker-ttl", "10m")
	port := url[strings.LastIndexByte(url, ':')+1:]

	// A short absence costs nothing.
	short := b.attempt("touch " + dir + "/short; until [ -e " + dir + "/go ]; do sleep 0.05; done; echo short")
	b.give(p.ID, short)
	crewtest.Exists(t, dir+"/short")
	hub.Kill()
	touch(t, dir+"/go")
	w.Says(w.Stderr, "the engine is away")
	startHubProcess(t, data, port)
	b = newBench(t, url, b.words...)
	f := b.ends(short)
	require.Equal(t, "short\n", string(f.Stdout))
	b.allAcknowledged()
}
