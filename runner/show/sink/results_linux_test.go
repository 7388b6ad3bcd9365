package sink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// TestResultsAreSynced checks that no page of a result is dirty after Sync.
func TestResultsAreSynced(t *testing.T) {
	dir := t.TempDir()
	dirty := func() (n uint64) {
		for name := range tree(t, dir) {
			file, err := os.Open(filepath.Join(dir, name))
			require.NoError(t, err)
			defer file.Close()
			var pages unix.Cachestat_t
			if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
				t.Skip(err)
			}
			n += pages.Dirty + pages.Writeback
		}
		return n
	}
	s, err := OpenResults(dir, func(*task.Task) string { return filepath.Join(dir, "key") }, Records{})
	require.NoError(t, err)
	for id := range uint64(3) {
		require.NoError(t, s.Consume([]task.Event{ended(id+1, task.Result{Outcome: task.OK, Stdout: spool.Text("out")})}))
		if dirty() == 0 {
			t.Skip("this file system writes at once, or never")
		}
		require.NoError(t, s.Sync())
		require.Zero(t, dirty())
	}
}
