package sink

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/history"
	"crew/runner/task"
)

// Where an earlier run has logged a result and could not note that, the row is
// found wherever it stands, and not written again. A cut row goes, and a header
// comes where there is none.
func TestJoblogGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	j, err := OpenJoblog(path, JoblogResumed, nil)
	require.NoError(t, err)
	begun := time.UnixMilli(1700000000123)
	at := func(id uint64, begin time.Time) task.Event {
		return ended(id, task.Result{Outcome: task.OK, Start: begin, End: begin.Add(time.Second)})
	}
	require.NoError(t, j.Consume([]task.Event{at(1, begun), at(2, begun.Add(time.Minute)), at(3, begun.Add(time.Hour))}))
	require.NoError(t, j.Close(task.Stats{}))
	whole := contents(t, path)
	require.NoError(t, os.WriteFile(path, []byte(whole+"4\t:\t17000000"), 0o666))

	j, err = OpenJoblog(path, JoblogResumed, slices.Values([]time.Time{begun, begun.Add(time.Nanosecond), begun.Add(2 * time.Hour)}))
	require.NoError(t, err)
	require.Equal(t, whole, contents(t, path))
	again := func(e task.Event) task.Event {
		e.Task.Done = e.Result
		return e
	}
	same := again(at(7, begun))
	require.NoError(t, j.Consume([]task.Event{same, same, again(at(8, begun.Add(2*time.Hour))), at(1, begun)}))
	require.NoError(t, j.Close(task.Stats{}))
	rows, _ := strings.CutPrefix(contents(t, path), whole)
	var seqs []string
	for row := range strings.Lines(rows) {
		seq, _, _ := strings.Cut(row, "\t")
		seqs = append(seqs, seq)
	}
	require.Equal(t, []string{"7", "8", "1"}, seqs)

	require.NoError(t, os.WriteFile(path, []byte(joblogHeader[:10]), 0o666))
	_, err = OpenJoblog(path, JoblogResumed, nil)
	require.NoError(t, err)
	require.Equal(t, joblogHeader, contents(t, path))
}

func contents(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestJoblogErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenJoblog(filepath.Join(dir, "no", "log"), JoblogNew, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "open joblog")

	if _, err := os.Stat("/dev/full"); err == nil {
		_, err := OpenJoblog("/dev/full", JoblogNew, nil)
		require.ErrorContains(t, err, "write joblog /dev/full")
	}
	j, err := OpenJoblog(filepath.Join(dir, "log"), JoblogNew, nil)
	require.NoError(t, err)
	require.NoError(t, j.Close(task.Stats{}))
	require.ErrorContains(t, j.Consume([]task.Event{ended(1, task.Result{Outcome: task.OK})}), "write joblog "+dir)
	require.ErrorContains(t, j.Close(task.Stats{}), "write joblog "+dir)
}

func FuzzJoblogCommand(f *testing.F) {
	for _, s := range []string{"", "a\tb", `\t`, "\\\n\r", "plain", `\x1b`, "\x1b[2J\a\x7f", "\u009b é\x9b\xff", `\`, `\x`, `\x1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := string(appendEscaped(nil, s))
		require.NotRegexp(t, `[\x00-\x1f\x7f\x{80}-\x{9f}]`, got)
		row := strings.NewReader("1\t:\t1.000\t      0.000\t0\t0\t0\t0\t" + got + "\n")
		require.NoError(t, history.ReadStream("", row, func(l *history.Line) error {
			require.True(t, l.Name == history.Began || s == string(l.Command), got)
			return nil
		}))
	})
}
