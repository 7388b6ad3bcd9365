package sink

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// Runtimes reads what Joblog writes.
func TestRuntimes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, ms int, commands ...string) string {
		path := filepath.Join(dir, name)
		j, err := OpenJoblog(path, JoblogNew, nil)
		require.NoError(t, err)
		at := time.Unix(1700000000, 0)
		for i, c := range commands {
			tk := &task.Task{ID: uint64(i + 1), Argv: []string{"sh", "-c", c}, Shell: true}
			r := &task.Result{Task: tk, Outcome: task.OK, Start: at, End: at.Add(time.Duration(ms) * time.Millisecond)}
			require.NoError(t, j.Consume([]task.Event{{Kind: task.Finished, Task: tk, Result: r}}))
		}
		require.NoError(t, j.Close(task.Stats{}))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	odd := []string{"a", "tab\there", "line\nline", `back\slash\n\\`, "\r", "", "\xff é", "\x1b[2J\x9b", `\x1b`}
	all := write("one", 1234, odd...) + write("two", 0, "fast", "a") // as those are that were skipped
	path := filepath.Join(dir, "all")
	require.NoError(t, os.WriteFile(path, []byte(all+"7\t:\t1.000\t  x\t0\t0\t0\t0\tbad\n8\tcut"), 0o666))
	times, err := Runtimes(path)
	require.NoError(t, err)
	want := map[string]int64{"fast": 1}
	for _, c := range odd {
		want[c] = 1234
	}
	require.Equal(t, want, times)

	for text, ok := range map[string]bool{"": true, joblogHeader: true, "a\nb\n": false} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		times, err = Runtimes(path)
		require.Equal(t, ok, err == nil, text)
		require.Empty(t, times)
	}
}
