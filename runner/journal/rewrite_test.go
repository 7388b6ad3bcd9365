package journal

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// However often a run is resumed and fails anew, its directory stays small.
func TestCompaction(t *testing.T) {
	t.Parallel()
	cfg := configured(t.TempDir())
	cfg.Slack, cfg.Past.RetryFailed = 2000, true
	var commands []string
	for i := range 20 {
		commands = append(commands, "x "+strconv.Itoa(i))
	}
	most := int64(0)
	for range 50 {
		fail := func(a task.Attempt) *task.Result {
			r := ok(a)
			if strings.HasSuffix(a.Argv()[1], "3") {
				r.Outcome, r.Code = task.Exit, 1
				r.Stdout = text(strings.Repeat("no\n", 500))
			}
			return r
		}
		run(t, cfg, fail, commands...)
		entries, err := os.ReadDir(cfg.Dir)
		require.NoError(t, err)
		require.Len(t, entries, 3, "a journal, its outputs and a lock")
		size := int64(0)
		for _, e := range entries {
			st, err := e.Info()
			require.NoError(t, err)
			size += st.Size()
		}
		most = max(most, size)
	}
	require.Less(t, most, int64(40_000))

	cfg.Past, cfg.Slack = Past{}, -1<<40 // compacts whatever there is
	shown, ran := run(t, cfg, ok, commands...)
	require.Empty(t, ran)
	require.Empty(t, shown, "that it was shown is kept")

	cfg.Past.Replay = true
	shown, ran = run(t, cfg, ok, commands...)
	require.Empty(t, ran)
	want := ""
	for i := range 20 {
		if i%10 == 3 {
			want += strings.Repeat("no\n", 500)
		} else {
			want += strconv.Itoa(i) + "\n"
		}
	}
	require.Equal(t, want, shown)
}

// What compaction leaves out is what a later line has made void, no more.
func TestCompactionKeepsWhatCounts(t *testing.T) {
	cfg := configured(t.TempDir())
	run(t, cfg, func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1} }, "x again", "x left")
	// Killed while it ran once more, and resumed without any task.
	j := opened(t, cfg)
	again := &task.Task{Argv: []string{"x", "again"}}
	again.Identity = new(hasher).of(again)
	j.Started(task.Attempt{Task: again}, false)
	require.NoError(t, j.Close())
	for _, want := range []int{1, 0} {
		j := opened(t, cfg)
		left, _ := j.Resumed()
		require.Equal(t, want, left.Interrupted, "the latest run is spoken of")
		require.NoError(t, j.Close())
	}
	cfg.Slack = -1 << 40
	run(t, cfg, ok)
	require.Equal(t, 1, strings.Count(read(t, cfg.Dir), evEnded))
	_, ran := run(t, cfg, ok, "x again", "x left")
	require.Equal(t, []string{"x again"}, ran)
}

func TestFailedCompactionChangesNothing(t *testing.T) {
	cfg := configured(t.TempDir())
	run(t, cfg, ok, "x a", "x b")
	before := read(t, cfg.Dir)
	// Nothing can be made under this name.
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.Dir, newName, "full"), 0o777))
	cfg.Slack = -1 << 40
	_, ran := run(t, cfg, ok, "x a", "x b")
	require.Empty(t, ran)
	require.True(t, strings.HasPrefix(read(t, cfg.Dir), before))
}

// What an attempt before the last wrote is void, too, when its task runs again.
func TestOutputsThatAreNeeded(t *testing.T) {
	cfg := configured(t.TempDir())
	cfg.Output.Plan, cfg.Past.RetryFailed = task.Plan{Show: task.ShowObjects}, true
	for range 3 {
		j := opened(t, cfg)
		tk := first(t, j, "x a")
		var before []*task.Result
		fail := ends(func(task.Attempt) *task.Result {
			return &task.Result{Outcome: task.Exit, Code: 1, Start: time.Unix(1, 0), Stdout: text("no\n"), Before: before}
		})
		before = append(before, fail.attempt(j, tk, 1, false))
		fail.attempt(j, tk, 2, true)
		require.NoError(t, j.Close())
	}
	j := opened(t, cfg)
	require.Equal(t, j.out.size(), 3*j.past.outputs, "the last run's alone is needed")
}

// Outputs may be in several files, of which those that hold nothing needed are removed.
func TestOutputFiles(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	want := map[uint64]string{}
	for i, tk := range accept(t, j, 1, 2, 3, 4, 5) {
		if i == 2 || i == 4 {
			_, err := j.out.rotate()
			require.NoError(t, err)
		}
		want[tk.ID] = strings.Repeat(strconv.Itoa(i), 3000*i)
		ends(func(task.Attempt) *task.Result {
			return &task.Result{Outcome: task.OK, Stdout: text(want[tk.ID]), Stderr: text("e")}
		}).attempt(j, tk, 1, true)
	}
	require.NoError(t, j.Close())
	files := func() (names []string) {
		all, err := filepath.Glob(filepath.Join(cfg.Dir, outputPrefix+"*"))
		require.NoError(t, err)
		for _, path := range all {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	require.Len(t, files(), 3)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, outputName(1<<20)), []byte("of a crash"), 0o600))
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} { // which moves them each time
		cfg.Slack = slack
		j := opened(t, cfg)
		for id, tk := range left(t, j) {
			var out strings.Builder
			if tk.Done.Stdout != nil {
				_, err := tk.Done.Stdout.WriteTo(&out)
				require.NoError(t, err)
			}
			require.Equal(t, want[id], out.String())
			b, err := tk.Done.Stderr.Tail(9)
			require.NoError(t, err)
			require.Equal(t, "e", string(b))
		}
		require.NoError(t, j.Close())
		require.Len(t, files(), map[bool]int{true: 3, false: 1}[slack > 0])
	}

	// Of a compaction that a crash has cut short, the new journal counts.
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, outputName(0)), []byte("replaced"), 0o600))
	require.Len(t, reopened(t, queued(cfg.Dir)), 5)
	require.Len(t, files(), 1)
}
