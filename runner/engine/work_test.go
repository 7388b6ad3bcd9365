package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/task"
)

// bench is the engine side of a test of crew worker: what a submitter would do.
type bench struct {
	t       *testing.T
	s       *session
	sum     [32]byte
	results chan any // *Chunk and *Final, in order
	last    uint64
}

func newBench(t *testing.T, url string, words ...string) *bench {
	s, err := connect(url, func(text string) { t.Log(text) })
	require.NoError(t, err)
	t.Cleanup(s.close)
	b := &bench{t: t, s: s, results: make(chan any, 10_000)}
	b.sum, _ = digest(cli.Template{Words: words, Replace: "{}"})
	c, err := s.js.OrderedConsumer(t.Context(), resultsStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"crew.r.>"}})
	require.NoError(t, err)
	_, err = c.Consume(func(m jetstream.Msg) {
		if c, err := DecodeChunk(m.Data()); err == nil {
			b.results <- c
		} else if f, err := DecodeFinal(m.Data()); err == nil {
			b.results <- f
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
	late := time.After(patience)
	for {
		select {
		case e := <-w.Updates():
			p = &Presence{}
			if e != nil && json.Unmarshal(e.Value(), p) == nil && ok(p) {
				return p
			}
		case <-late:
			require.Fail(b.t, "no such worker")
		}
	}
}

func isReady(p *Presence) bool { return p.State == ready && p.Slots > 0 }

// attempt returns a new attempt with a value.
func (b *bench) attempt(value string) *Attempt {
	b.last++
	a := &Attempt{
		ID: ID{"run", 1, b.last, 1}, Template: b.sum, Records: [][]string{{value}}, KillAfter: 5 * time.Second,
	}
	copy(a.Token[:], fmt.Sprint("token ", b.last))
	return a
}

func (b *bench) give(worker string, a *Attempt) {
	b.t.Helper()
	_, err := b.s.js.Publish(b.t.Context(), taskSubject("default", worker, a.Run), a.Encode())
	require.NoError(b.t, err)
}

func (b *bench) order(worker string, o Order) (a Answer) {
	b.t.Helper()
	o.Version = Version
	data, err := json.Marshal(o)
	require.NoError(b.t, err)
	m, err := b.s.nc.Request(orderSubject("default", worker), data, patience)
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(m.Data, &a))
	return a
}

// final returns the next end of an attempt, and the chunks before it.
func (b *bench) final() (f *Final, chunks []*Chunk) {
	b.t.Helper()
	late := time.After(patience)
	for {
		select {
		case r := <-b.results:
			if f, ok := r.(*Final); ok {
				return f, chunks
			}
			chunks = append(chunks, r.(*Chunk))
		case <-late:
			require.Fail(b.t, "no result")
		}
	}
}

// tasksLeft is how many messages are in the stream of tasks.
func (b *bench) tasksLeft() uint64 {
	s, err := b.s.js.Stream(b.t.Context(), tasksStream)
	require.NoError(b.t, err)
	return s.CachedInfo().State.Msgs
}

func (b *bench) allAcknowledged() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.tasksLeft() == 0 }, patience, 10*time.Millisecond)
}

// runs reports whether a process has text in its command line.
func running(text string) bool { return exec.Command("pgrep", "-f", text).Run() == nil }

func TestWorkerRunsItsOwnCommand(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, []string{"printf", "got %s", "a  b"}, f.Argv)
	require.Equal(t, "w1", f.Host)
	w.says(&w.err, "printf 'got %s' 'a  b'\n")

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
		require.Contains(t, f.Err, what)
	}
	b.allAcknowledged()
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.True(t, errors.As(w.ended(), &exit))
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
	require.Equal(t, gone, b.worker(func(p *Presence) bool { return p.State == gone }).State)
}
