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
	"crew/runner/spool"
	"crew/runner/task"
)

func TestJoblogRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o666))
	j, err := OpenJoblog(path, JoblogNew, nil)
	require.NoError(t, err)

	ok := ended(1, task.Result{Outcome: task.OK, Stdout: spool.Text("four"), Start: time.UnixMilli(1700000000123), End: time.UnixMilli(1700000001357)})
	ok.Task.Stdin = []byte("123")
	odd := ended(2, task.Result{Outcome: task.Exit, Code: 3})
	odd.Task.Argv = []string{"printf", "a\tb\nc\rd\\"}
	killed := ended(3, task.Result{Outcome: task.Signal, Signal: 9})
	timeout := ended(4, task.Result{Outcome: task.Timeout, Signal: 15})
	never := ended(5, task.Result{Outcome: task.StartFailed, Code: 127, Argv: []string{"jib"}})
	never.Result.Start, never.Result.End, never.Attempt = time.Time{}, time.Time{}, 0
	unrun := ended(6, task.Result{Outcome: task.NotRun})
	unasked := ended(7, task.Result{Outcome: task.Cancelled})
	unasked.Attempt = 0
	ended8 := ended(8, task.Result{Outcome: task.Cancelled})
	far := ended(9, task.Result{Outcome: task.OK, Host: "web1"})
	lost := ended(10, task.Result{Outcome: task.Lost, Host: "web1"})
	unmade := ended(11, task.Result{Outcome: task.NoOutput})
	skipped := skippedEvent(12)

	require.NoError(t, j.Consume([]task.Event{{Kind: task.Started}, ok, odd}))
	require.Equal(t, joblogHeader+
		"1\t:\t1700000000.123\t      1.234\t3\t4\t0\t0\tjob 'a b'\n"+
		"2\t:\t1767323045.000\t      0.210\t0\t0\t3\t0\tprintf 'a\\tb\\nc\\rd\\\\'\n", contents(t, path),
		"Consume writes the rows")
	require.NoError(t, j.Consume(nil))
	require.NoError(t, j.Consume([]task.Event{killed, timeout, never, unrun, unasked, ended8, far, lost, unmade, skipped}))
	require.NoError(t, j.Close(task.Stats{}))
	_, rows, _ := strings.Cut(contents(t, path), "\n2\t")
	_, rows, _ = strings.Cut(rows, "\n")
	require.Equal(t, "3\t:\t1767323045.000\t      0.210\t0\t0\t0\t9\tjob 'a b'\n"+
		"4\t:\t1767323045.000\t      0.210\t0\t0\t-1\t15\tjob 'a b'\n"+
		"5\t:\t1767323045.000\t      0.000\t0\t0\t127\t0\tjib\n"+
		"8\t:\t1767323045.000\t      0.210\t0\t0\t-1\t0\tjob 'a b'\n"+
		"9\tweb1\t1767323045.000\t      0.210\t0\t0\t0\t0\tjob 'a b'\n"+
		"10\tweb1\t1767323045.000\t      0.210\t0\t0\t-1\t0\tjob 'a b'\n"+
		"11\t:\t1767323045.000\t      0.210\t0\t0\t-1\t0\tjob 'a b'\n"+
		"12\t:\t1767323045.000\t      0.000\t0\t0\t0\t0\tjob 'a b'\n", rows)
}

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
