package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

// text returns an output.
func text(s string) task.Output { return spool.Text(s) }

// ends says how attempts end.
type ends func(a task.Attempt) *task.Result

// attempt makes the nth attempt at a task and tells the journal, as a run does.
func (f ends) attempt(j *Journal, t *task.Task, n int, final bool) *task.Result {
	a := task.Attempt{Task: t, Number: n, Slot: task.Slot{ID: 1}}
	j.Started(a, false)
	r := f(a)
	r.Task, r.Attempt, r.Worker, r.Argv = t, n, 1, a.Argv()
	if r.Start.IsZero() {
		r.Start = time.Now()
	}
	if r.End.IsZero() {
		r.End = r.Start.Add(time.Millisecond)
	}
	j.Ended(a, r, final)
	return r
}

// ok echoes the task's last word.
func ok(a task.Attempt) *task.Result {
	argv := a.Argv()
	return &task.Result{Outcome: task.OK, Stdout: text(argv[len(argv)-1] + "\n")}
}

// list is a source of tasks, each a command line of words.
type list struct {
	commands []string
	n        int
}

func (l *list) Next(func() uint64) (*task.Task, error) {
	if l.n == len(l.commands) {
		return nil, io.EOF
	}
	l.n++
	return &task.Task{ID: uint64(l.n), Argv: strings.Fields(l.commands[l.n-1])}, nil
}

// first is the task of one command.
func first(t *testing.T, j *Journal, command string) *task.Task {
	t.Helper()
	tk, err := j.Source(&list{commands: []string{command}}).Next(nil)
	require.NoError(t, err)
	return tk
}

func configured(dir string) Config {
	return Config{Dir: dir, Command: Command{Line: "crew x", Dir: "/"}, Notice: func(string) {}, Slack: 1 << 20}
}

func opened(t *testing.T, cfg Config) *Journal {
	t.Helper()
	j, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// shower is the sink that shows: it gathers what it is given.
type shower struct {
	bytes.Buffer
	err error
}

func (s *shower) Consume(events []task.Event) error {
	for _, e := range events {
		if e.Kind == task.Finished && e.Result.Stdout != nil && !e.Result.Earlier && s.err == nil {
			_, _ = e.Result.Stdout.WriteTo(s)
		}
	}
	return s.err
}

func (s *shower) Sync() error { return nil }

func (s *shower) Close(task.Stats) error { return s.err }

// run runs commands as a run would, one after another, and returns what was
// shown and which of them ran.
func run(t *testing.T, cfg Config, exec ends, commands ...string) (shown string, ran []string) {
	t.Helper()
	j := opened(t, cfg)
	var out shower
	ran = drive(t, j, exec, &out, commands...)
	require.NoError(t, j.Close())
	return out.String(), ran
}

func drive(t *testing.T, j *Journal, exec ends, out *shower, commands ...string) (ran []string) {
	t.Helper()
	src, commit, logs, show := j.Source(&list{commands: commands}), j.Commit(), j.Logs(), j.Shown(out)
	for {
		tk, err := src.Next(nil)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		e := task.Event{Kind: task.Finished, ID: tk.ID, Task: tk, Result: tk.Done}
		if tk.Done == nil {
			ran = append(ran, strings.Join(tk.Argv, " "))
			e.Attempt = 1
			e.Result = exec.attempt(j, tk, 1, true)
		}
		events := []task.Event{e, {Kind: task.Released, ID: tk.ID, Last: tk.ID}}
		require.NoError(t, commit.Consume(events))
		require.NoError(t, logs.Consume(events))
		if err := show.Consume(events); err != nil {
			return ran
		}
	}
	require.NoError(t, commit.Close(task.Stats{}))
	require.NoError(t, logs.Close(task.Stats{}))
	require.NoError(t, show.Close(task.Stats{}))
	return ran
}

// A run that is told to end does not wait for its reader, which takes no output that it can
// read no more for damaged.
func TestNothingIsReadOnceItIsClosed(t *testing.T) {
	j := opened(t, configured(t.TempDir()))
	src := j.Source(&list{commands: []string{"x 1", "x 2"}})
	_, err := src.Next(nil)
	require.NoError(t, err)
	require.NoError(t, j.Close())
	_, err = src.Next(nil)
	require.ErrorIs(t, err, io.EOF)
	_, err = j.out.verified(extent{0, 2, 0})
	require.ErrorIs(t, err, os.ErrClosed)
}

// What ended but was not shown when crew was gone is shown by the next run, and does not run
// again; so also by a run that shows lines as they come. Lines that waited for their turn are
// gone with the run, so the task runs again.
func TestEndedAndNotShown(t *testing.T) {
	lines := task.Plan{Show: task.ShowLines}
	ordered := task.Plan{Show: task.ShowLines, Order: true}
	for _, c := range []struct {
		before, now task.Plan
		ran         []string
	}{{}, {now: lines}, {before: ordered, now: ordered, ran: []string{"x a"}}} {
		cfg := configured(t.TempDir())
		cfg.Output.Plan = c.before
		j := opened(t, cfg)
		drive(t, j, ok, &shower{err: errors.New("nobody reads")}, "x a")
		require.NoError(t, j.Close())
		cfg.Output.Plan = c.now
		shown, ran := run(t, cfg, ok, "x a")
		require.Equal(t, c.ran, ran)
		require.Equal(t, "a\n", shown)
		shown, ran = run(t, cfg, ok, "x a")
		require.Empty(t, ran)
		require.Empty(t, shown)
	}
}

// An end may wait for the next start to be written with, and not for longer.
func TestEndIsWritten(t *testing.T) {
	for name, next := range map[string]func(*Journal, *task.Task){
		"start": func(j *Journal, tk *task.Task) { j.Started(task.Attempt{Task: tk, Number: 1}, false) },
		"idle":  func(j *Journal, _ *task.Task) { j.Idle() },
	} {
		for _, final := range []bool{true, false} {
			cfg := configured(t.TempDir())
			j := opened(t, cfg)
			src := j.Source(&list{commands: []string{"x a", "x b"}})
			a, err := src.Next(nil)
			require.NoError(t, err)
			b, err := src.Next(nil)
			require.NoError(t, err)
			ends(ok).attempt(j, a, 1, final)
			next(j, b)
			s, last := dumped(t, cfg.Dir)
			require.Equal(t, final, last[0] == 1, name)
			require.NotContains(t, s.Interrupted, task.Facts{Command: "x a"}, name)
		}
	}
}

// A joblog or results tree that begins anew gets every result of earlier runs, if
// not from the run that began it then from a later one.
func TestLogAll(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} { // which compacts each time
		cfg := configured(t.TempDir())
		cfg.Slack, cfg.Output.Logs = slack, true
		commands := []string{"x a", "x b", "x c"}
		run(t, cfg, ok, commands...)
		unlogged := func(j *Journal) (n int) {
			for start := range j.Unlogged {
				require.False(t, start.IsZero())
				n++
			}
			return n
		}
		j := opened(t, cfg)
		require.Zero(t, unlogged(j))
		require.NoError(t, j.LogAll())
		require.Equal(t, 3, unlogged(j))
		drive(t, j, ok, &shower{}, "x b")
		require.NoError(t, j.Close())

		for _, want := range [][]bool{{false, true, false}, {true, true, true}} {
			j = opened(t, cfg)
			src := j.Source(&list{commands: commands})
			for _, logged := range want {
				tk, err := src.Next(nil)
				require.NoError(t, err)
				require.Equal(t, logged, tk.Done.Logged)
				require.True(t, tk.Done.Earlier)
			}
			require.NoError(t, j.Close())
			run(t, cfg, ok, commands...)
		}
	}
}

// A journal in which no task has begun is none to go on with.
func TestNothingBegun(t *testing.T) {
	cfg := configured(t.TempDir())
	resumed := func() bool {
		j := opened(t, cfg)
		defer j.Close()
		_, is := j.Resumed()
		return is
	}
	require.False(t, resumed())
	require.False(t, resumed())
	run(t, cfg, ok, "x a")
	require.True(t, resumed())
	cfg.Past.Reset = true
	require.False(t, resumed())
	cfg.Past.Reset = false
	require.False(t, resumed(), "how long tasks took is all that is left")
}

func read(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	require.NoError(t, err)
	return string(b)
}

func TestCancelledAndUnfinishedRunAgain(t *testing.T) {
	for name, r := range map[string]task.Result{
		"cancelled":   {Outcome: task.Cancelled},
		"fault":       {Outcome: task.OK, Fault: errors.New("no space")},
		"no command":  {Outcome: task.StartFailed, BadCommand: true},
		"not its end": {Outcome: task.Exit, Code: 75},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configured(t.TempDir())
			cfg.SameCommand = true
			j := opened(t, cfg)
			ends(func(task.Attempt) *task.Result { return &r }).attempt(j, first(t, j, "x a"), 1, r.Code != 75)
			require.NoError(t, j.Close())
			_, ran := run(t, cfg, ok, "x a")
			require.Len(t, ran, 1)
		})
	}
}

// Attempts are numbered through all runs. One that was interrupted is made again
// under its number, and uses up no retry.
func TestAttemptsGoOn(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} { // which compacts each time
		cfg := configured(t.TempDir())
		cfg.Slack = slack
		fail := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1} })
		is := func(attempts, failures int) (*Journal, *task.Task) {
			j := opened(t, cfg)
			tk := first(t, j, "x a")
			require.Equal(t, []int{attempts, failures}, []int{tk.Attempts, int(tk.Failures)})
			return j, tk
		}
		j, tk := is(0, 0)
		fail.attempt(j, tk, 1, false)
		j.Started(task.Attempt{Task: tk, Number: 2}, false)
		require.NoError(t, j.Close())

		j, tk = is(1, 1)
		cancel := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Cancelled} })
		cancel.attempt(j, tk, 2, true)
		require.NoError(t, j.Close())

		j, _ = is(1, 1)
		require.NoError(t, j.Close())
		j, tk = is(1, 1)
		fail.attempt(j, tk, 2, true)
		require.NoError(t, j.Close())

		cfg.Past.RetryFailed = true
		j, tk = is(2, 0)
		j.Started(task.Attempt{Task: tk, Number: 3}, false)
		require.NoError(t, j.Close())
		is(2, 0)
	}
}

// An attempt that was lost, or ended for memory, has its number, but uses up no retry. A task that
// is given up because that happened again and again has failed.
func TestLostAttempts(t *testing.T) {
	for i, o := range []task.Outcome{task.Lost, task.Lost, task.Memory, task.Memory} {
		cfg := configured(t.TempDir())
		cfg.Slack = []int64{1 << 20, -1 << 40}[i%2]
		lost := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: o} })
		fail := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1} })
		j := opened(t, cfg)
		tk := first(t, j, "x a")
		lost.attempt(j, tk, 1, false)
		fail.attempt(j, tk, 2, false)
		lost.attempt(j, tk, 3, false)
		require.NoError(t, j.Close())
		for range 2 {
			j = opened(t, cfg)
			tk = first(t, j, "x a")
			require.Equal(t, []int{3, 1}, []int{tk.Attempts, int(tk.Failures)})
			require.NoError(t, j.Close())
		}
		j = opened(t, cfg)
		lost.attempt(j, first(t, j, "x a"), 4, true)
		require.NoError(t, j.Close())
		j = opened(t, cfg)
		require.Equal(t, o, first(t, j, "x a").Done.Outcome)
	}
}

// What failed or was lost is known in the next run, however often the journal is
// compacted, until the task is done. Of very many attempts it is the first and the last.
func TestEarlierAttemptsAreKnown(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} {
		cfg := configured(t.TempDir())
		cfg.Slack = slack
		fail := ends(func(a task.Attempt) *task.Result {
			return &task.Result{Outcome: task.Exit, Code: a.Number, Leaked: a.Number == 1, Err: errors.New(`oh "]`), Units: task.Holding{{Name: "a", Held: []string{"1"}}}}
		})
		lost := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Lost, Host: "web1"} })
		unbegun := ends(func(task.Attempt) *task.Result {
			return &task.Result{Outcome: task.Lost, Host: "web1", Unbegun: true}
		})
		reopened := func(omitted int, want ...int) (*Journal, *task.Task) {
			var j *Journal
			var tk *task.Task
			for range 2 {
				if j != nil {
					require.NoError(t, j.Close())
				}
				j = opened(t, cfg)
				tk = first(t, j, "x a")
				var got []int
				for _, r := range known(tk).Before {
					require.True(t, r.Earlier)
					require.Equal(t, tk, r.Task)
					got = append(got, r.Attempt)
				}
				require.Equal(t, want, got)
				require.Equal(t, omitted, known(tk).Omitted)
			}
			return j, tk
		}
		j, tk := reopened(0)
		fail.attempt(j, tk, 1, false)
		unbegun.attempt(j, tk, 2, false)
		lost.attempt(j, tk, 3, false)
		j.Started(task.Attempt{Task: tk, Number: 4}, false)
		require.NoError(t, j.Close())
		j, tk = reopened(0, 1, 3)
		require.Equal(t, []task.Outcome{task.Exit, task.Lost}, []task.Outcome{known(tk).Before[0].Outcome, known(tk).Before[1].Outcome})
		require.Equal(t, 1, known(tk).Before[0].Code)
		require.True(t, known(tk).Before[0].Leaked)
		require.EqualError(t, known(tk).Before[0].Err, `oh "]`)
		require.Equal(t, "web1", known(tk).Before[1].Host)
		for n := 4; n <= 20; n++ {
			fail.attempt(j, tk, n, false)
		}
		require.NoError(t, j.Close())
		j, tk = reopened(9, 1, 12, 13, 14, 15, 16, 17, 18, 19, 20)
		require.Equal(t, []int{20, 18}, []int{tk.Attempts, int(tk.Failures)})
		fail.attempt(j, tk, 21, false)
		require.NoError(t, j.Close())
		j, tk = reopened(10, 1, 13, 14, 15, 16, 17, 18, 19, 20, 21)

		final := ends(func(task.Attempt) *task.Result {
			return &task.Result{Outcome: task.Exit, Code: 22, Before: known(tk).Before, Omitted: known(tk).Omitted}
		})
		final.attempt(j, tk, 22, true)
		require.NoError(t, j.Close())
		j, tk = reopened(0)
		require.Equal(t, 20, tk.Done.Tries())
		require.Equal(t, 21, tk.Done.Before[9].Attempt)
		require.True(t, tk.Done.Before[9].Earlier)
		require.EqualError(t, tk.Done.Before[9].Err, `oh "]`)
		require.NoError(t, j.Close())
		cfg.Past.RetryFailed = true
		j, tk = reopened(0)
		fail.attempt(j, tk, 23, false)
		require.NoError(t, j.Close())
		j, _ = reopened(0, 23)
		require.NoError(t, j.Close())
	}
}

// What an earlier run had begun, and the input lacks now, is known.
func TestMissing(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} {
		cfg := configured(t.TempDir())
		cfg.Slack = slack
		j := opened(t, cfg)
		for i, command := range []string{"x a", "x b", "x c"} {
			tk := first(t, j, command)
			j.Started(task.Attempt{Task: tk, Number: 1}, false)
			if i == 2 {
				j.Ended(task.Attempt{Task: tk, Number: 1}, &task.Result{Task: tk, Outcome: task.OK}, true)
			}
		}
		require.NoError(t, j.Close())
		for range 2 {
			j = opened(t, cfg)
			first(t, j, "x b")
			missing, n := j.Missing()
			require.Equal(t, 1, n)
			require.EqualValues(t, "x a", missing[0].Command)
			require.NoError(t, j.Close())
		}
	}
}

// All that a result says comes back.
func TestReplayedResult(t *testing.T) {
	cfg := configured(t.TempDir())
	start := time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	large := strings.Repeat("0123456789abcdef", bufferSize/8)
	want := task.Result{
		Host: "web1", PID: 4711, Outcome: task.Signal, Signal: 9, Start: start, End: start.Add(1234567891 * time.Nanosecond),
		User: 1500 * time.Microsecond, System: time.Nanosecond, MaxRSS: 1 << 20, Leaked: true, Err: errors.New("a \"reason\"\n"),
		Units:  []task.Units{{Name: "db", Held: []string{"0", "1"}}, {Name: "gpu", Held: []string{"0"}}},
		Stdout: text(large), Stderr: text("err\xff\x00"),
	}
	run(t, cfg, func(task.Attempt) *task.Result { r := want; return &r }, "x a")
	cfg.Past.Replay = true
	j := opened(t, cfg)
	tk := first(t, j, "x a")
	got := *tk.Done
	for _, o := range [][2]task.Output{{want.Stdout, got.Stdout}, {want.Stderr, got.Stderr}} {
		var a, b bytes.Buffer
		_, err := o[0].WriteTo(&a)
		require.NoError(t, err)
		n, err := o[1].WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, o[1].Len(), n)
		require.True(t, bytes.Equal(a.Bytes(), b.Bytes()))
		tail, err := o[1].Tail(7)
		require.NoError(t, err)
		require.Equal(t, a.Bytes()[max(0, a.Len()-7):], tail)
	}
	require.Equal(t, start.Format(time.RFC3339Nano), got.Start.Format(time.RFC3339Nano))
	require.Equal(t, want.Start.Sub(want.End), got.Start.Sub(got.End))
	require.Equal(t, want.Err.Error(), got.Err.Error())
	require.False(t, got.Earlier)
	got.Stdout, got.Stderr, got.Start, got.End, got.Err = want.Stdout, want.Stderr, want.Start, want.End, want.Err
	want.Task, want.Attempt, want.Worker, want.Argv, want.Logged = tk, 1, 1, tk.Argv, true
	require.Equal(t, want, got)
}

// TestBatch has a slot end and start several attempts at a time, with outputs that wait
// to be written and with others between them.
func TestBatch(t *testing.T) {
	cfg := configured(t.TempDir())
	j := opened(t, cfg)
	var commands, want []string
	var ended []*task.Result
	for i, size := range []int{1, 0, 5, 5000, 3, smallOutput, 70_000, 2, 0, 9} {
		commands = append(commands, fmt.Sprint("x ", i))
		want = append(want, strings.Repeat(strconv.Itoa(i), size))
	}
	src := j.Source(&list{commands: commands})
	for i, output := range want {
		tk, err := src.Next(nil)
		require.NoError(t, err)
		j.Started(task.Attempt{Task: tk, Number: 1}, i < len(want)-1)
		ended = append(ended, &task.Result{Task: tk, Attempt: 1, Outcome: task.OK, Stdout: text(output)})
	}
	lines, err := os.ReadFile(j.file.Name())
	require.NoError(t, err)
	require.Equal(t, len(want), bytes.Count(lines, []byte(evStarted)), "before the first one starts")
	for _, r := range ended[:9] {
		j.Ended(task.Attempt{Task: r.Task, Number: 1}, r, true)
	}
	require.NoError(t, j.Close())

	cfg.Past.Replay = true
	shown, ran := run(t, cfg, ok, commands...)
	require.Equal(t, commands[9:], ran)
	require.Equal(t, strings.Join(want[:9], "")+"9\n", shown)
}

func TestDamagedOutputRunsAgain(t *testing.T) {
	for _, size := range []int{5, bufferSize + 5} {
		cfg := configured(t.TempDir())
		echo := func(task.Attempt) *task.Result {
			return &task.Result{Outcome: task.OK, Stdout: text(strings.Repeat("a", size))}
		}
		run(t, cfg, echo, "x a")
		f, err := os.OpenFile(filepath.Join(cfg.Dir, outputName(0)), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("b"), int64(size-1))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		var said []string
		cfg.Notice = func(s string) { said = append(said, s) }
		_, ran := run(t, cfg, echo, "x a")
		require.Empty(t, ran, "nobody wants to see it")
		cfg.Past.Replay = true
		shown, ran := run(t, cfg, echo, "x a")
		require.Len(t, ran, 1)
		require.Equal(t, strings.Repeat("a", size), shown)
		require.Equal(t, []string{"task 1 runs again: its kept output is damaged"}, said)
	}
}

func TestResetKeepsDurations(t *testing.T) {
	cfg := configured(t.TempDir())
	took := map[string]time.Duration{"short": time.Millisecond, "long": time.Hour}
	timed := func(a task.Attempt) *task.Result {
		start := time.Now()
		return &task.Result{Outcome: task.OK, Start: start, End: start.Add(took[a.Argv()[1]])}
	}
	run(t, cfg, timed, "x short", "x long")
	cfg.Past.Reset, cfg.Past.Costs = true, true
	costs := func() (costs []int64) {
		j := opened(t, cfg)
		defer j.Close()
		src := j.Source(&list{commands: []string{"x long", "x new", "x short"}})
		for range 3 {
			tk, err := src.Next(nil)
			require.NoError(t, err)
			require.Nil(t, tk.Done)
			costs = append(costs, tk.Cost)
		}
		return costs
	}
	for range maxAge + 1 {
		require.Equal(t, []int64{3600e6, 1<<63 - 1, 1000}, costs())
	}
	require.Equal(t, []int64{1<<63 - 1, 1<<63 - 1, 1<<63 - 1}, costs(), "it is long ago")
}

// How long a task took is known though it is interrupted when it runs again.
func TestInterruptedKeepsDuration(t *testing.T) {
	for _, slack := range []int64{1 << 20, -1 << 40} { // which compacts each time
		cfg := configured(t.TempDir())
		cfg.Slack = slack
		run(t, cfg, func(task.Attempt) *task.Result {
			start := time.Now()
			return &task.Result{Outcome: task.OK, Start: start, End: start.Add(time.Hour)}
		}, "x a")
		cfg.Past.Reset = true
		j := opened(t, cfg)
		j.Started(task.Attempt{Task: first(t, j, "x a"), Number: 1}, false)
		require.NoError(t, j.Close())
		cfg.Past = Past{Costs: true}
		for range 2 {
			j = opened(t, cfg)
			tk := first(t, j, "x a")
			require.Equal(t, int64(3600e6), tk.Cost)
			require.Zero(t, tk.Attempts)
			require.NoError(t, j.Close())
		}
	}
}

// A journal can hold a note about a result that there was no room for, and nothing
// else.
func TestNoteInVain(t *testing.T) {
	cfg := configured(t.TempDir())
	j := opened(t, cfg)
	tk := first(t, j, "x a")
	j.fail(errors.New("no room"))
	r := ends(ok).attempt(j, tk, 1, true)
	var out shower
	require.NoError(t, j.Shown(&out).Consume([]task.Event{
		{Kind: task.Finished, ID: 1, Task: tk, Attempt: 1, Result: r}, {Kind: task.Released, ID: 1, Last: 1},
	}))
	require.NoError(t, j.Close())
	require.Contains(t, read(t, cfg.Dir), `"event":"released"`)
	_, ran := run(t, cfg, ok, "x a")
	require.Len(t, ran, 1)
}

// A disk that is full when it is to be noted what was shown is told of, too.
func TestFullDiskForANote(t *testing.T) {
	cfg := configured(t.TempDir())
	j := opened(t, cfg)
	tk := first(t, j, "x a")
	r := ends(ok).attempt(j, tk, 1, true)
	events := []task.Event{{Kind: task.Finished, ID: 1, Task: tk, Attempt: 1, Result: r}, {Kind: task.Released, ID: 1, Last: 1}}
	require.NoError(t, j.Commit().Consume(events))
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	file := j.file
	j.file = full
	var out shower
	require.NoError(t, j.Shown(&out).Consume(events))
	require.Equal(t, "a\n", out.String())
	require.ErrorContains(t, j.Commit().Close(task.Stats{}), "no space left on device")
	require.NoError(t, j.Shown(&out).Close(task.Stats{}), "it is told once")
	require.NoError(t, full.Close())
	j.file = file
	require.NoError(t, j.Close())
	shown, ran := run(t, cfg, ok, "x a")
	require.Empty(t, ran)
	require.Equal(t, "a\n", shown)
}

// Two logs that fail are told of in one line.
func TestLogsFail(t *testing.T) {
	j := opened(t, configured(t.TempDir()))
	l := j.Logs(&shower{err: errors.New("no log")}, &shower{err: errors.New("no tree")})
	require.EqualError(t, l.Consume(nil), "no log; no tree")
	require.EqualError(t, l.Close(task.Stats{}), "no log; no tree")
}

// known returns what is known of the earlier attempts at a task.
func known(t *task.Task) task.Attempts {
	if t.Known == nil {
		return task.Attempts{}
	}
	return *t.Known
}
