package journal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// powerCut returns a copy of the directory of an open journal as a power cut leaves it:
// of the outputs that were not synced nothing is on disk but their place.
func powerCut(t *testing.T, j *Journal) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(j.cfg.Dir)))
	if j.out.dirty.Load() {
		for _, f := range j.out.files {
			output := filepath.Join(dir, filepath.Base(f.Name()))
			st, err := os.Stat(output)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(output, 0))
			require.NoError(t, os.Truncate(output, st.Size()))
		}
	}
	return dir
}

// Whatever syncs the lines of a queue, syncs first the outputs to which they refer.
func TestOutputIsSyncedBeforeItsLine(t *testing.T) {
	for name, syncs := range map[string]func(j *Journal, tasks []*task.Task) error{
		"accept":   func(j *Journal, _ []*task.Task) error { return j.Accept([]*task.Task{{ID: 4}}) },
		"withdraw": func(j *Journal, tasks []*task.Task) error { return j.Withdraw(tasks[2:]) },
		"compact":  func(j *Journal, _ []*task.Task) error { return j.compact(nil, nil) },
		"compact outputs": func(j *Journal, _ []*task.Task) error {
			j.cfg.Slack = -1 << 40
			return j.compact(nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := queued(t.TempDir())
			j := opened(t, cfg)
			left(t, j)
			tasks := accept(t, j, 1, 2, 3)
			ends(ok).attempt(j, tasks[0], 1, true)
			require.NoError(t, syncs(j, tasks))
			require.Contains(t, read(t, cfg.Dir), `"event":"ended"`)

			cfg.Dir = powerCut(t, j)
			done := left(t, opened(t, cfg))[1].Done
			require.NotNil(t, done)
			var out bytes.Buffer
			_, err := done.Stdout.WriteTo(&out)
			require.NoError(t, err)
			require.Equal(t, "1\n", out.String())
		})
	}
}

// The outputs of a run that was killed before it synced them are synced before the
// journal is compacted.
func TestOutputOfAKilledRunIsSynced(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	ends(ok).attempt(j, accept(t, j, 1)[0], 1, true)
	require.NoError(t, j.Close())
	j = opened(t, cfg)
	left(t, j)
	accept(t, j, 2)
	cfg.Dir = powerCut(t, j)
	require.NotNil(t, reopened(t, cfg)[1].Done)
}

// An end whose output a power cut has damaged does not count until it was shown,
// unless the user has cancelled the task.
func TestEndWithoutOutput(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1, 2, 3)
	ends(ok).attempt(j, tasks[0], 1, true)
	ends(func(a task.Attempt) *task.Result {
		return &task.Result{Outcome: task.Cancelled, Final: true, Stdout: text("part\n")}
	}).attempt(j, tasks[1], 1, true)
	fail := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1, Stdout: text("3\n")} })
	finish(t, j, 1, fail.attempt(j, tasks[2], 1, true))
	require.NoError(t, j.Close())
	require.NoError(t, os.Truncate(filepath.Join(cfg.Dir, outputName(0)), 0))

	var notices []string
	cfg.Notice = func(text string) { notices = append(notices, text) }
	got := reopened(t, cfg)
	require.Nil(t, got[1].Done, "it runs again")
	require.Equal(t, 1, got[1].Attempts)
	require.True(t, got[2].Done.Final)
	require.NotNil(t, got[3].Done)
	require.Equal(t, []string{
		"task 1 runs again: its kept output is damaged", "task 2 has ended but is not shown: its kept output is damaged",
	}, notices)
}

// diary is a Log that tells when it is synced.
type diary struct {
	shower
	sync func() error
}

func (d *diary) Sync() error { return d.sync() }

// A note that the logs have a result is written after they were synced.
func TestLogsAreSyncedBeforeTheirNotes(t *testing.T) {
	cfg := configured(t.TempDir())
	cfg.Output.Logs = true
	j := opened(t, cfg)
	synced := 0
	log := &diary{sync: func() error { synced++; return nil }}
	commit, logs, show := j.Commit(), j.Logs(log), j.Shown(&shower{})
	src := j.Source(&list{commands: []string{"x a", "x b", "x c"}})
	one := func() {
		tk, err := src.Next(nil)
		require.NoError(t, err)
		events := []task.Event{
			{Kind: task.Finished, ID: tk.ID, Task: tk, Attempt: 1, Result: ends(ok).attempt(j, tk, 1, true)},
			{Kind: task.Released, ID: tk.ID, Last: tk.ID},
		}
		require.NoError(t, commit.Consume(events))
		require.NoError(t, logs.Consume(events))
		require.NoError(t, show.Consume(events))
	}
	noted := func() (n int) {
		for line := range strings.Lines(read(t, cfg.Dir)) {
			if body, ok := unseal([]byte(line)); ok && event(body) == evLogged {
				for range identities(body) {
					n++
				}
			}
		}
		return n
	}
	one()
	require.Equal(t, []int{1, 1}, []int{synced, noted()})
	logs.due = logs.due.Add(1 << 40)
	one()
	one()
	require.Equal(t, []int{1, 1}, []int{synced, noted()}, "many are synced at once")
	require.NoError(t, commit.Close(task.Stats{}))
	require.NoError(t, logs.Close(task.Stats{}))
	require.NoError(t, show.Close(task.Stats{}))
	require.Equal(t, []int{2, 3}, []int{synced, noted()})
}

// Logs that cannot be synced are not said to have anything.
func TestLogsCannotBeSynced(t *testing.T) {
	cfg := configured(t.TempDir())
	cfg.Output.Logs = true
	j := opened(t, cfg)
	logs, show := j.Logs(&diary{sync: func() error { return io.ErrShortWrite }}), j.Shown(&shower{})
	tk := first(t, j, "x a")
	events := []task.Event{
		{Kind: task.Finished, ID: 1, Task: tk, Attempt: 1, Result: ends(ok).attempt(j, tk, 1, true)}, {Kind: task.Released, ID: 1, Last: 1},
	}
	require.ErrorIs(t, logs.Consume(events), io.ErrShortWrite)
	require.NoError(t, show.Consume(events))
	require.NoError(t, logs.Close(task.Stats{}))
	require.NoError(t, show.Close(task.Stats{}))
	require.NotContains(t, read(t, cfg.Dir), `"event":"logged"`)
}
