package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	inTime(t, func(t *testing.T, b *broker) {
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
	})
}
