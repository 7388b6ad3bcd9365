package engine

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

// filesIn returns the files below a directory with their content.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files[strings.TrimPrefix(path, dir+"/")] = crewtest.ReadFile(t, path)
		}
		return err
	}))
	return files
}

// naming is a runner.Maker that only gives temporary names.
type naming struct{}

func (naming) Check(*task.Task) *task.Result { return nil }
func (naming) End(*task.Result)              {}
func (naming) Begin(a task.Attempt) *task.Result {
	a.Task.Makes.Temp = fmt.Sprintf(".crew-%08d.", a.Number)
	return nil
}

// TestMadeIsGone: if a result arrives without the file that it names, the task runs again.
func TestMadeIsGone(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		path, tries := filepath.Join(t.TempDir(), "out"), 0
		b.worker("a", 1, func(f *fake, a *Attempt) {
			file := travel.File{Path: path, Mode: 0o640, Made: true, Sum: sha256.Sum256([]byte("made"))}
			file.Blob = f.s.blobs.Add(spool.Text("made"), 4)
			if tries++; tries == 1 {
				f.s.blobs.Drop(file.Blob)
			}
			f.end(a, func(fin *Final) { fin.Returned = []travel.File{file} })
		})
		r, err := b.tryRun(&records{n: 1, change: func(t *task.Task) {
			t.Makes = &task.Making{Targets: []task.Target{{Path: path, Temp: true}}}
		}}, func(s *wiring.Call) { s.Makes.Outs = []string{"out"} })
		require.NoError(t, err)
		r.wait()
		require.Equal(t, task.OK, r.results[1].Outcome)
		require.Equal(t, 1, r.lost)
		require.Equal(t, "made", filesIn(t, filepath.Dir(path))[".crew-00000002.out"])
	})
}

// TestMadeOfOtherInputs: a submitter dies before results arrive. The next one uses the result of a
// task that would run in the same way; a task with changed inputs runs again.
func TestMadeOfOtherInputs(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		dir := t.TempDir()
		given := make(chan uint64, 10)
		var mu sync.Mutex
		var kept []*Attempt
		w := b.worker("a", 2, func(f *fake, a *Attempt) {
			if given <- a.Task; a.Epoch > 1 {
				f.end(a, shows("again\n"))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, a)
		})
		w.leaves = func() {
			mu.Lock()
			defer mu.Unlock()
			for _, a := range kept {
				fin := w.final(a)
				shows("first\n")(fin)
				_, err := w.s.nc.Request(resultSubject(a.User, a.Run, w.presence.ID), encode(kindFinal, fin), time.Second)
				require.NoError(t, err)
			}
		}
		run := func(inputs uint64) *testRun {
			r, err := b.tryRun(&records{n: 2, change: func(tk *task.Task) {
				tk.Makes = &task.Making{Targets: []task.Target{{Path: fmt.Sprint("made", tk.ID)}}, Stamp: task.Stamp{Command: 1, Inputs: 1 + inputs*(tk.ID-1)}}
			}}, func(s *wiring.Call) { s.State.Dir, s.Makes.Outs = dir, []string{"made"} })
			require.NoError(t, err)
			return r
		}
		r := run(1)
		for range 2 {
			crewtest.Receive(t, given, "an attempt")
		}
		r.die()
		r = run(2)
		r.wait()
		require.Equal(t, map[uint64]string{1: "first\n", 2: "again\n"}, r.outputs)
		require.Equal(t, uint64(2), crewtest.Receive(t, given, "the attempt that runs again"))
		require.Empty(t, given)
	})
}
