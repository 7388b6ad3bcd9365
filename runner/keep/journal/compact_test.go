package journal

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// TestFailedCompaction checks that a compaction whose journal cannot be installed keeps the old
// outputs.
func TestFailedCompaction(t *testing.T) {
	w := newWorld(t, true)
	w.cfg.Queue.Keep, w.cfg.Slack = time.Hour, 1<<40
	require.NoError(t, w.do("open"))
	for id := uint64(1); id < 20; id++ {
		tk := &task.Task{ID: id, Argv: []string{"x"}, Bare: true}
		require.NoError(t, w.j.Accept([]*task.Task{tk}, ""))
		r := &task.Result{Task: tk, Attempt: 1, Outcome: task.OK, Start: time.Now(), Stdout: text(strings.Repeat("o", 5000))}
		w.j.Started(task.Attempt{Task: tk, Number: 1}, false)
		w.j.Ended(task.Attempt{Task: tk, Number: 1}, r, true)
	}
	file, kept := filepath.Join(w.cfg.Dir, journalName), filepath.Join(w.cfg.Dir, "kept")
	require.NoError(t, os.Rename(file, kept))
	require.NoError(t, os.MkdirAll(filepath.Join(file, "full"), 0o700))
	w.j.cfg.Slack = -1 << 40
	require.Error(t, w.compact())
	require.NoError(t, os.RemoveAll(file))
	require.NoError(t, os.Rename(kept, file))
	left, err := filepath.Glob(filepath.Join(w.cfg.Dir, "output.*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(w.cfg.Dir, "output.0")}, left)
}

// TestLatestEndedDuringCompactions checks that LatestEnded returns outputs of the file that the lines
// which it has read refer to.
func TestLatestEndedDuringCompactions(t *testing.T) {
	w := newWorld(t, true)
	w.cfg.Queue.Keep, w.cfg.Slack = time.Hour, 1<<40
	require.NoError(t, w.do("open"))
	tk := &task.Task{ID: 1, Argv: []string{"x"}, Bare: true}
	require.NoError(t, w.j.Accept([]*task.Task{tk}, ""))
	w.j.Started(task.Attempt{Task: tk, Number: 1}, false)
	w.j.Ended(task.Attempt{Task: tk, Number: 1}, &task.Result{Task: tk, Attempt: 1, Outcome: task.OK, Start: time.Now(), Stdout: text("o")}, true)
	w.j.cfg.Slack = -1 << 40
	var latest sync.WaitGroup
	var done atomic.Bool
	latest.Go(func() {
		for !done.Load() {
			var out [1]byte
			list := w.j.LatestEnded(1, false)
			if n, err := list[0].Outputs[0].ReadAt(out[:], 0); n != 1 || err != nil || out[0] != 'o' {
				t.Errorf("read %q: %v", out[:n], err)
			}
		}
	})
	for range 20 {
		require.NoError(t, w.compact())
	}
	done.Store(true)
	latest.Wait()
}
