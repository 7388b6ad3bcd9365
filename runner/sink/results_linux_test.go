package sink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/spool"
	"crew/runner/task"
)

// After Sync no page of a result is dirty.
func TestResultsAreSynced(t *testing.T) {
	dirty := func(name string) uint64 {
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		var pages unix.Cachestat_t
		if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
			t.Skip(err)
		}
		return pages.Dirty + pages.Writeback
	}
	dir := t.TempDir()
	keyed := func(tk *task.Task) string { return filepath.Join(dir, "key") }
	s, err := OpenResults(dir, keyed, Records{})
	require.NoError(t, err)
	for id := range uint64(3) {
		require.NoError(t, s.Consume([]task.Event{ended(id+1, task.Result{Outcome: task.OK, Stdout: spool.Text("out")})}))
		files, err := filepath.Glob(filepath.Join(dir, "key", "*", "*"))
		require.NoError(t, err)
		require.Len(t, files, 3*int(id+1))
		if id == 0 && dirty(files[2]) == 0 {
			t.Skip("this file system writes at once, or never")
		}
		require.NoError(t, s.Sync())
		for _, file := range files {
			require.Zero(t, dirty(file), file)
		}
	}
}
