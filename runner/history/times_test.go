package history

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func command(words ...string) *task.Task { return &task.Task{Argv: words} }

// The last time of a command counts, and of several sources the last that has it.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	add := func(to *Times, text string) error {
		path := filepath.Join(dir, "source")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		return to.Add(path)
	}
	var times Times
	require.NoError(t, add(&times, ""))
	require.Zero(t, times.Len())
	require.NoError(t, add(&times, row(1, 1, 3, "0\t0\ta b")+row(2, 1, 5, "0\t0\tskipped")+row(1, 9, 2, "1\t0\ta b")+
		row(2, 9, 0, "0\t0\tskipped")+row(3, 9, 0, "0\t0\tfast")+"7\t:\t1.000\t  x\t0\t0\t0\t0\tbad\n"))
	require.Equal(t, map[string]time.Duration{"a b": 2 * time.Second, "skipped": 5 * time.Second, "fast": time.Millisecond},
		maps.Collect(times.All()))
	require.NoError(t, add(&times, `{"task":1,"command":"a b","outcome":"ok","start":"2026-01-02T03:04:05Z","duration":7,`+
		`"attempts":[{"outcome":"exit","duration":100}]}`))
	require.NoError(t, add(&times, `{"v":2,"event":"finished","task":1,"command":"cut…","outcome":"ok","duration":7}`+"\n"+
		`{"v":2,"event":"finished","task":2,"command":"whole","outcome":"ok","duration":8}`))
	for _, c := range []struct {
		task *task.Task
		want time.Duration
	}{
		{command("a", "b"), 7 * time.Second}, {command("skipped"), 5 * time.Second}, {command("whole"), 8 * time.Second},
		{&task.Task{Argv: []string{"sh", "-c", "cut…"}, Shell: true}, 0}, {command("a"), 0}, {command(), 0},
	} {
		_, took, ok := times.Of(c.task)
		require.Equal(t, c.want, took, c.task.Argv)
		require.Equal(t, c.want > 0, ok)
	}
	require.ErrorContains(t, add(&times, "nothing of the kind\n"), "it is no joblog")
	require.ErrorContains(t, times.Add(dir), "no directory of --state")
	require.EqualError(t, times.Add(dir+"/none"), "read "+dir+"/none: no such file or directory")
}
