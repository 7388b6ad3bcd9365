package journal

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// given is a source of tasks.
type given []*task.Task

func (g *given) Next(func() uint64) (*task.Task, error) {
	if len(*g) == 0 {
		return nil, io.EOF
	}
	t := (*g)[0]
	*g = (*g)[1:]
	return t, nil
}

// maker is the task of a command that makes files from inputs with a hash.
func maker(command string, inputs uint64, targets ...string) *task.Task {
	t := &task.Task{ID: 1, Argv: strings.Fields(command), Makes: &task.Making{Stamp: task.Stamp{Inputs: inputs, Since: 1 << 62}}}
	for _, path := range targets {
		t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: path, Temp: true})
	}
	return t
}

// sourced has the journal say what it knows of a task.
func sourced(t *testing.T, j *Journal, tk *task.Task) *task.Task {
	t.Helper()
	tk, err := j.Source(&given{tk}).Next(nil)
	require.NoError(t, err)
	require.NotZero(t, tk.Identity)
	require.NotZero(t, tk.Makes.Stamp.Command)
	require.Nil(t, tk.Done, "whether it is done is not known before its files are checked")
	return tk
}

// skip ends a task that need not run.
func skip(j *Journal, tk *task.Task) *task.Result {
	r := &task.Result{Task: tk, Outcome: task.Skipped, Start: time.Now()}
	r.End = r.Start
	j.Ended(task.Attempt{Task: tk}, r, true)
	return r
}

func exit(code int) ends {
	return func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: code} }
}

// What became of a task that makes files is known of the task that makes them, whatever its
// command.
func TestWhatMakesFilesIsKnown(t *testing.T) {
	show := func(t *testing.T, j *Journal, r *task.Result) { finish(t, j, r.Attempt, r) }
	for name, c := range map[string]struct {
		happens func(*testing.T, *Journal, *task.Task)
		known   task.Known
		shows   task.Outcome // what the result of the earlier run is, if it is to be shown
	}{
		"nothing":     {happens: func(*testing.T, *Journal, *task.Task) {}},
		"begun":       {func(_ *testing.T, j *Journal, tk *task.Task) { j.Started(task.Attempt{Task: tk, Number: 1}, false) }, task.KnownUnmade, 0},
		"made":        {func(_ *testing.T, j *Journal, tk *task.Task) { ends(ok).attempt(j, tk, 1, true) }, task.KnownMade, task.OK},
		"shown":       {func(t *testing.T, j *Journal, tk *task.Task) { show(t, j, ends(ok).attempt(j, tk, 1, true)) }, task.KnownMade, 0},
		"skipped":     {func(_ *testing.T, j *Journal, tk *task.Task) { skip(j, tk) }, task.KnownMade, task.Skipped},
		"skips shown": {func(t *testing.T, j *Journal, tk *task.Task) { show(t, j, skip(j, tk)) }, task.KnownMade, 0},
		"failed":      {func(t *testing.T, j *Journal, tk *task.Task) { show(t, j, exit(1).attempt(j, tk, 1, true)) }, task.KnownUnmade, 0},
		"cancelled": {func(_ *testing.T, j *Journal, tk *task.Task) {
			ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Cancelled} }).attempt(j, tk, 1, true)
		}, task.KnownUnmade, 0},
		"made, begun": {func(t *testing.T, j *Journal, tk *task.Task) {
			show(t, j, ends(ok).attempt(j, tk, 1, true))
			j.Started(task.Attempt{Task: tk, Number: 2}, false)
		}, task.KnownUnmade, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configured(t.TempDir())
			j := opened(t, cfg)
			was := sourced(t, j, maker("x a", 1<<63+1, "a", "d/../b"))
			c.happens(t, j, was)
			require.NoError(t, j.Close())
			for _, past := range []Past{{}, {RetryFailed: true}, {}} {
				cfg.Past = past
				j := opened(t, cfg)
				tk := sourced(t, j, maker("y a", 5, "./a", "b"))
				require.Equal(t, was.Identity, tk.Identity)
				m := tk.Makes
				require.NotEqual(t, was.Makes.Stamp.Command, m.Stamp.Command)
				require.Equal(t, c.known, m.Known)
				if c.known == task.KnownMade {
					require.Equal(t, was.Makes.Stamp, m.Made)
				}
				require.Equal(t, c.shows != 0, m.Done != nil)
				if m.Done != nil {
					require.Equal(t, c.shows, m.Done.Outcome)
					require.False(t, m.Done.Earlier || m.Done.Logged)
					require.True(t, m.Done.Known())
				}
				require.Zero(t, j.Unkept())
				require.Zero(t, tk.Failures)
				require.NoError(t, j.Close())
				cfg.Slack = -1 << 40 // compacts from now on
			}
		})
	}
}

// A result that an earlier run has not shown is shown once, if the files are up to date, and
// one that cannot be shown is made again.
func TestResultOfWhatIsUpToDate(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		cfg := configured(t.TempDir())
		var notices []string
		cfg.Notice = func(s string) { notices = append(notices, s) }
		j := opened(t, cfg)
		ends(ok).attempt(j, sourced(t, j, maker("x a", 1, "a")), 1, true)
		require.NoError(t, j.Close())
		if damaged {
			require.NoError(t, os.Truncate(filepath.Join(cfg.Dir, outputName(0)), 0))
		}
		j = opened(t, cfg)
		tk := sourced(t, j, maker("x a", 1, "a"))
		if damaged {
			require.Equal(t, []string{"task 1 runs again: its kept output is damaged"}, notices)
			require.Equal(t, task.KnownUnmade, tk.Makes.Known)
			require.Nil(t, tk.Makes.Done)
			continue
		}
		var out shower
		events := []task.Event{{Kind: task.Finished, ID: 1, Task: tk, Result: tk.Makes.Done}, {Kind: task.Released, ID: 1, Last: 1}}
		require.NoError(t, j.Commit().Consume(events))
		require.NoError(t, j.Shown(&out).Consume(events))
		require.Equal(t, "a\n", out.String())
		require.NoError(t, j.Close())
		j = opened(t, cfg)
		tk = sourced(t, j, maker("x a", 1, "a"))
		require.Nil(t, tk.Makes.Done)

		size := len(read(t, cfg.Dir))
		r := &task.Result{Task: tk, Outcome: task.Skipped, Earlier: true, Logged: true}
		finish(t, j, 0, r)
		require.Len(t, read(t, cfg.Dir), size, "nothing new is known")
		require.NoError(t, j.Close())
		cfg.Past.Replay = true
		require.NotNil(t, sourced(t, opened(t, cfg), maker("x a", 1, "a")).Makes.Done)
	}
}

// Lines that were held back are gone with the run, so what wrote them runs again; but what
// was skipped wrote none.
func TestLostOutputOfWhatIsUpToDate(t *testing.T) {
	for _, skipped := range []bool{false, true} {
		cfg := configured(t.TempDir())
		cfg.Output.Plan = task.Plan{Show: task.ShowLines, Order: true}
		j := opened(t, cfg)
		tk := sourced(t, j, maker("x a", 1, "a"))
		want := task.KnownUnmade
		if skipped {
			skip(j, tk)
			want = task.KnownMade
		} else {
			ends(ok).attempt(j, tk, 1, true)
		}
		require.NoError(t, j.Close())
		j = opened(t, cfg)
		require.Equal(t, want, sourced(t, j, maker("x a", 1, "a")).Makes.Known)
		require.Zero(t, j.Unkept())
	}
}

// The attempts of a former command use up no retry of another one.
func TestAnotherCommandHasItsRetries(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} { // which compacts each time
		cfg := configured(t.TempDir())
		cfg.Slack = slack
		for i, c := range []struct {
			command                    string
			attempts, failures, before int
		}{{"x", 0, 0, 0}, {"x", 1, 1, 1}, {"y", 2, 0, 0}, {"y", 3, 1, 1}, {"x", 4, 0, 0}, {"x", 5, 1, 1}} {
			j := opened(t, cfg)
			tk := sourced(t, j, maker(c.command, uint64(i), "a"))
			require.Equal(t, []int{c.attempts, c.failures}, []int{tk.Attempts, int(tk.Failures)}, "%d", i)
			require.Len(t, known(tk).Before, c.before, "%d", i)
			exit(75).attempt(j, tk, tk.Attempts+1, false)
			require.NoError(t, j.Close())
		}
	}
}

// A task that was skipped took no time: its last attempt did.
func TestSkippedTasksTakeNoTime(t *testing.T) {
	cfg := configured(t.TempDir())
	cfg.Past.Costs = true
	j := opened(t, cfg)
	took := ends(func(task.Attempt) *task.Result {
		start := time.Now()
		return &task.Result{Outcome: task.OK, Start: start, End: start.Add(3 * time.Second)}
	})
	took.attempt(j, sourced(t, j, maker("x a", 1, "a")), 1, true)
	took.attempt(j, sourced(t, j, maker("x b", 1, "b")), 1, true)
	require.NoError(t, j.Close())
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		j = opened(t, cfg)
		tk := sourced(t, j, maker("x a", 2, "a"))
		require.EqualValues(t, 3e6, tk.Cost)
		if slack > 0 {
			skip(j, tk)
		}
		require.NoError(t, j.Close())
	}
	_, last := dumped(t, cfg.Dir)
	require.Equal(t, []int{1, 1, 2}, []int{last[task.OK], last[task.Skipped], last[0]})
}

// All bits of a stamp survive, and readers of JSON get them as they are.
func TestStamps(t *testing.T) {
	s := task.Stamp{Command: 1<<64 - 1, Inputs: 1<<63 + 1, Since: -5}
	line := append(appendStamp([]byte(`{"event":"ended"`), s), '}')
	var m map[string]string
	require.NoError(t, json.Unmarshal(line, &m))
	require.Equal(t, "ffffffffffffffff8000000000000001fffffffffffffffb", m["made"])
	require.Equal(t, s, parseStamp(field(line, stampName)))
	for _, bad := range []string{"", "ff", strings.Repeat("g", 48)} {
		require.Zero(t, parseStamp([]byte(bad)))
	}
}

// A queue has whole tasks, so also which files they make. An unfinished one that has begun
// is made again, and whether another one is up to date its files say.
func TestQueueOfMakers(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	require.Empty(t, left(t, j))
	tasks := []*task.Task{maker("x", 0, "a\xff", "b"), maker("x", 0, "c"), maker("x", 0, "d"), maker("x", 0, "e")}
	for i, tk := range tasks {
		tk.ID, tk.Makes.Stamp = uint64(i+1), task.Stamp{}
	}
	tasks[0].Makes.Targets[1].Temp, tasks[0].Makes.Reads = false, []string{"in\xff"}
	tasks[0].Makes.Guessed, tasks[0].Makes.Stdout = true, true
	tasks[0].Marks = []task.Mark{{Word: 0, Off: 0, Temp: true}}
	require.NoError(t, j.Accept(tasks))
	j.Started(task.Attempt{Task: tasks[1], Number: 1}, false)
	finish(t, j, 1, exit(3).attempt(j, tasks[2], 1, true))
	finish(t, j, 0, skip(j, tasks[3]))
	require.Equal(t, 2, strings.Count(read(t, cfg.Dir), `"event":"ended"`), "each once")
	require.NoError(t, j.Close())

	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		got := reopened(t, cfg)
		require.Equal(t, tasks[0].Makes, got[1].Makes)
		require.Equal(t, tasks[0].Marks, got[1].Marks)
		require.Equal(t, task.KnownUnmade, got[2].Makes.Known)
		require.Nil(t, got[2].Done)
		require.Equal(t, task.Exit, got[3].Done.Outcome)
		require.NotContains(t, got, uint64(4), "it was skipped and shown")
	}
}

// A task that makes the files of another one is refused, and known as that in the next run.
func TestSecondMakerOfAFile(t *testing.T) {
	cfg := configured(t.TempDir())
	for _, want := range []task.Known{task.NotKnown, task.KnownUnmade} {
		j := opened(t, cfg)
		src := j.Source(&given{maker("x", 1, "a"), maker("y", 1, "a")})
		one, err := src.Next(nil)
		require.NoError(t, err)
		two, err := src.Next(nil)
		require.NoError(t, err)
		require.NotEqual(t, one.Identity, two.Identity)
		require.Equal(t, task.NotKnown, one.Makes.Known)
		require.Equal(t, want, two.Makes.Known)
		j.Ended(task.Attempt{Task: two}, &task.Result{Task: two, Outcome: task.StartFailed, Err: errors.New("twice")}, true)
		require.NoError(t, j.Close())
	}
}
