package journal

import (
	"crew/runner/decide/task"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
