package target

import (
	"hash/fnv"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// at sets the time of a file, which it makes if it is missing, to so many nanoseconds
// after some time.
func at(t *testing.T, name string, ns int64) {
	t.Helper()
	if _, err := os.Lstat(name); err != nil {
		put(t, name, "")
	}
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, ns)))
}

// check returns why a task has to run, or "" if it need not.
func check(t *testing.T, cfg Config, tk *task.Task) string {
	t.Helper()
	res := New(cfg).Check(tk)
	require.Equal(t, tk.Makes.Why == "", res != nil)
	return tk.Makes.Why
}

func TestResultOfCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	at(t, "out", 0)
	tk := making("out")
	for known, earlier := range map[task.Known]bool{task.NotKnown: false, task.KnownMade: true} {
		tk.Makes.Known, tk.Makes.Made.Inputs = known, fnv.New64a().Sum64()
		res := New(journal).Check(tk)
		require.Equal(t, &task.Result{Task: tk, Outcome: task.Skipped, Start: res.Start, End: res.Start, Earlier: earlier, Logged: earlier}, res)
		require.WithinDuration(t, time.Now(), res.Start, time.Minute)
	}
	tk.Makes.Done = &task.Result{Outcome: task.OK}
	require.Same(t, tk.Makes.Done, New(journal).Check(tk))
}

// A write after an attempt has begun or a check has ended alters the stamp, even if the clock of
// the file system has not ticked since.
func TestRacyInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	f := New(journal)
	for text, stamp := range map[string]func(tk *task.Task){
		"begin": func(tk *task.Task) { begin(t, f, tk).end(task.Cancelled) },
		"check": func(tk *task.Task) {
			put(t, "out", "")
			require.NotNil(t, f.Check(tk), tk.Makes.Why)
		},
	} {
		tk := making("out")
		tk.Makes.Reads = []string{"in"}
		put(t, "in", text)
		st, err := os.Stat("in")
		require.NoError(t, err)
		stamp(tk)
		require.GreaterOrEqual(t, time.Since(st.ModTime()), Racy, text)
		before := tk.Makes.Stamp
		put(t, "in", text)
		stamp(tk)
		require.NotEqual(t, before, tk.Makes.Stamp)
	}
}

func TestSettle(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "in", "")
	synctest.Test(t, func(t *testing.T) {
		f, tk := New(journal), making("out")
		tk.Makes.Reads = []string{"in"}
		write := func() { require.NoError(t, os.Chtimes("in", time.Time{}, time.Now())) }
		settle := func() (sum uint64, took time.Duration) {
			began := time.Now()
			return f.settledInputs(tk).sum, time.Since(began)
		}
		write()
		quiet, took := settle()
		require.Equal(t, Racy, took)
		again, took := settle()
		require.Zero(t, took)
		require.Equal(t, quiet, again)

		// A file that is written meanwhile is not up to date.
		write()
		go func() { time.Sleep(Racy / 2); write() }()
		busy, took := settle()
		require.Equal(t, Racy, took)
		quiet, _ = settle()
		require.NotEqual(t, quiet, busy)
	})
}
