package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func queued(dir string) Config {
	cfg := configured(dir)
	cfg.Command = Command{Line: "crew serve"}
	cfg.Queue = &Queue{Keep: time.Hour}
	return cfg
}

// left returns the tasks that a queue holds at its start, by number.
func left(t testing.TB, j *Journal) map[uint64]*task.Task {
	t.Helper()
	tasks := map[uint64]*task.Task{}
	last := uint64(0)
	for tk, err := range j.Queue() {
		require.NoError(t, err)
		require.Greater(t, tk.ID, last)
		last = tk.ID
		tasks[tk.ID] = tk
	}
	require.LessOrEqual(t, last, j.Last())
	return tasks
}

// reopened returns the tasks that the queue of dir holds when it is opened.
func reopened(t testing.TB, cfg Config) map[uint64]*task.Task {
	t.Helper()
	j, err := Open(cfg)
	require.NoError(t, err)
	defer j.Close()
	return left(t, j)
}

func accept(t testing.TB, j *Journal, ids ...uint64) (tasks []*task.Task) {
	t.Helper()
	for _, id := range ids {
		tasks = append(tasks, &task.Task{ID: id, Argv: []string{"x", fmt.Sprint(id)}, Bare: true, Env: []string{"A=1", "SECRET=2"}})
	}
	require.NoError(t, j.Accept(tasks))
	return tasks
}

// finish tells the sinks how tasks ended.
func finish(t testing.TB, j *Journal, attempt int, results ...*task.Result) {
	t.Helper()
	var events []task.Event
	for _, r := range results {
		id := r.Task.ID
		events = append(events,
			task.Event{Kind: task.Finished, ID: id, Task: r.Task, Result: r, Attempt: attempt},
			task.Event{Kind: task.Released, ID: id, Last: id})
	}
	require.NoError(t, j.Commit().Consume(events))
	require.NoError(t, j.Shown(&shower{}).Consume(events))
}

func TestQueueHoldsWholeTasks(t *testing.T) {
	cfg := queued(filepath.Join(t.TempDir(), "deep", "queue"))
	j := opened(t, cfg)
	require.Empty(t, left(t, j))
	env := []string{"PATH=/bin", "ODD=\xff\n\"", `LINE=,"id":"`, ""}
	want := []*task.Task{
		{ID: 3, Argv: []string{"x", "\xfe", "é\x00\u2028<", ""}, Bare: true, Env: env, Dir: "/\xfd", Key: "k\xff"},
		{ID: 7, Argv: []string{"sh", "-c", "echo"}, Shell: true, Env: []string{"B=\x80"}, Stdin: []byte{}, Protocol: task.JSONProtocol, Cost: -3,
			Timeout: -time.Second, Asked: &task.Terms{After: []uint64{3}}, Records: [][]string{{"a", "\xff"}, {}}, Object: `{"a":1}`, Tag: "t{%}\xff",
			Marks: []task.Mark{{Word: task.InTag, Off: 1}, {Word: 2, Off: 0}}},
		{ID: 8, Err: errors.New("no such column"), Stdin: []byte("in\xff")},
		{ID: 9, Argv: []string{"y"}, Bare: true, Env: env, Asked: &task.Terms{Priority: -7, Weight: 3, Needs: []task.Need{{Name: "db", N: 2}, {Name: "gpu", N: 1}}}},
		{ID: 10, Argv: []string{"y"}, Bare: true, Env: []string{}},
	}
	require.NoError(t, j.Accept(want[:2]))
	require.NoError(t, j.Accept(want[2:]))
	require.NoError(t, j.Close())
	require.Equal(t, 2, strings.Count(read(t, cfg.Dir), `"event":"environment"`), "each once")

	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} { // which compacts each time
		cfg.Slack = slack
		j := opened(t, cfg)
		waits, ok := j.Resumed()
		require.True(t, ok)
		require.Equal(t, Resumed{Waiting: 5}, waits)
		got := left(t, j)
		require.Len(t, got, len(want))
		for _, w := range want {
			if w.ID == 7 {
				w.Records[1] = got[7].Records[1] // empty or nil
			}
			require.Equal(t, w, got[w.ID])
		}
		require.Same(t, &got[3].Env[0], &got[9].Env[0])
		require.Equal(t, uint64(10), j.Last())
		require.NoError(t, j.Close())
	}
}

// A task that ended does not run again, one that did not does.
func TestQueueEnds(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1, 2, 3, 4, 5, 6, 7, 8)
	result := func(id int, r task.Result) *task.Result {
		return ends(func(task.Attempt) *task.Result { return &r }).attempt(j, tasks[id-1], 1, true)
	}
	finish(t, j, 1,
		result(1, task.Result{Outcome: task.OK, Stdout: text("1\n")}),
		result(2, task.Result{Outcome: task.Exit, Code: 3}),
		result(3, task.Result{Outcome: task.Cancelled, Signal: 15, Final: true}),
		result(4, task.Result{Outcome: task.Cancelled, Signal: 15}))
	refused := &task.Result{Task: tasks[5], Outcome: task.StartFailed, Err: errors.New("task 2 failed")}
	j.Ended(task.Attempt{Task: tasks[5]}, refused, true)
	finish(t, j, 0,
		&task.Result{Task: tasks[4], Outcome: task.Cancelled, Final: true}, refused,
		&task.Result{Task: tasks[6], Outcome: task.NotRun})
	j.Started(task.Attempt{Task: tasks[7], Number: 1}, false)
	require.NoError(t, j.Close())

	done := map[uint64]task.Outcome{2: task.Exit, 3: task.Cancelled, 5: task.Cancelled, 6: task.StartFailed}
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		j := opened(t, cfg)
		got := left(t, j)
		require.Len(t, got, 7)
		require.Nil(t, got[1], "it has succeeded")
		for id, tk := range got {
			require.Equal(t, done[id] == 0, tk.Done == nil, id)
			require.Equal(t, []string{"x", fmt.Sprint(id)}, tk.Argv, "it may be run again")
			if tk.Done != nil {
				require.Equal(t, done[id], tk.Done.Outcome)
				require.Equal(t, tk.Done.Outcome == task.Cancelled, tk.Done.Final)
				require.True(t, tk.Done.Earlier && tk.Done.Logged)
			}
		}
		s, last := dumped(t, cfg.Dir)
		require.Equal(t, []int{5, 3, 0, 2}, []int{last[0], s.Waiting, s.Running, last[task.Cancelled]})
		require.NoError(t, j.Close())
	}
}

// What is done by hand with a task that waits overrides what it was when it was added, and a
// task that came after one that failed does not run.
func TestQueueOfChangedTasks(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1, 2, 3)
	change := func(tk *task.Task, terms task.Terms, words ...string) {
		changed := *tk
		changed.Asked, changed.Argv = &terms, words
		require.NoError(t, j.Change([]*task.Task{&changed}))
	}
	later := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	change(tasks[0], task.Terms{Held: true, Note: "first"}, "x", "1")
	change(tasks[0], task.Terms{At: later, Rank: -7, After: []uint64{1}, Note: "n\xff", Name: "a"}, "y")
	vain := &task.Result{Task: tasks[1], Outcome: task.NotRun, Final: true, Err: errors.New("task 1 failed")}
	finish(t, j, 0, vain)
	require.NoError(t, j.Close())
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		j := opened(t, cfg)
		waits, _ := j.Resumed()
		require.Equal(t, 2, waits.Waiting)
		got := left(t, j)
		require.Equal(t, &task.Terms{At: later, Rank: -7, After: []uint64{1}, Note: "n\xff", Name: "a"}, got[1].Asked)
		require.Equal(t, []string{"y"}, got[1].Argv)
		require.Equal(t, tasks[0].Env, got[1].Env)
		require.Equal(t, task.NotRun, got[2].Done.Outcome)
		require.True(t, got[2].Done.Final)
		require.Nil(t, got[3].Asked)
		require.NoError(t, j.Close())
	}
	require.Equal(t, 1, strings.Count(read(t, cfg.Dir), `"task":1,`), "the former ones are compacted away")
}

// Of tasks that have succeeded the numbers are known, and those that have a name.
func TestQueueKnowsWhatSucceeded(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1, 2, 3, 4, 5, 6)
	tasks[2].Asked = &task.Terms{Name: "three"}
	require.NoError(t, j.Change(tasks[2:3]))
	for _, i := range []int{0, 1, 2, 4} {
		finish(t, j, 1, ends(ok).attempt(j, tasks[i], 1, true))
	}
	finish(t, j, 1, ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1} }).attempt(j, tasks[3], 1, true))
	var numbers []uint64
	for _, p := range j.Latest(3, false) {
		numbers = append(numbers, p.Task)
	}
	require.Equal(t, []uint64{3, 5, 4}, numbers)
	require.Len(t, j.Latest(3, true), 1)
	require.NoError(t, j.Close())
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		j := opened(t, cfg)
		require.Equal(t, [][2]uint64{{1, 3}, {5, 5}}, j.Succeeded())
		got := left(t, j)
		require.Len(t, got, 3)
		require.Equal(t, "three", got[3].Terms().Name)
		require.Equal(t, task.OK, got[3].Done.Outcome)
		require.Len(t, j.Latest(9, false), 5)
		require.NoError(t, j.Close())
	}
}

// A queue has another command once nothing waits there.
func TestQueueOfAnotherCommand(t *testing.T) {
	cfg := queued(t.TempDir())
	cfg.Slack = -1 << 40
	j := opened(t, cfg)
	left(t, j)
	tk := accept(t, j, 1)[0]
	require.NoError(t, j.Close())
	former := cfg
	cfg.Command.Line = "crew serve new"
	_, err := Open(cfg)
	require.ErrorContains(t, err, "it was crew serve, this is crew serve new; 1 task still to run")
	j = opened(t, former)
	left(t, j)
	finish(t, j, 1, ends(ok).attempt(j, tk, 1, true))
	require.NoError(t, j.Close())
	for range 2 { // the first time it is not adopted
		j = opened(t, cfg)
		require.True(t, j.Changed())
		require.Empty(t, left(t, j))
		require.NotContains(t, read(t, cfg.Dir), "crew serve new")
		require.NoError(t, j.Close())
	}
	j = opened(t, cfg)
	require.Empty(t, left(t, j))
	require.NoError(t, j.Adopt())
	require.False(t, j.Changed())
	require.Contains(t, read(t, cfg.Dir), "crew serve new")
	require.NoError(t, j.Close())
}

// A failed task that is run again under another number is one that has not ended
// until it has.
func TestQueueRunsAgain(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tk := accept(t, j, 1)[0]
	fail := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.Exit, Code: 1} })
	finish(t, j, 1, fail.attempt(j, tk, 1, true))
	again := *tk
	again.ID = 2
	j.Started(task.Attempt{Task: &again, Number: 2}, false)
	require.NoError(t, j.Close())
	j = opened(t, cfg)
	waits, _ := j.Resumed()
	require.Equal(t, Resumed{Waiting: 1, Interrupted: 1}, waits)
	tk = left(t, j)[1]
	require.Nil(t, tk.Done)
	require.Equal(t, 1, tk.Attempts)
	require.Equal(t, uint64(2), j.Last(), "no number is given twice")
	finish(t, j, 2, ends(ok).attempt(j, tk, 2, true))
	require.NoError(t, j.Close())
	require.Empty(t, reopened(t, cfg))
}

// A task whose environment cannot be read does not run without it.
func TestQueueMissesEnvironment(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	accept(t, j, 1)
	require.NoError(t, j.Close())
	bad := strings.Replace(read(t, cfg.Dir), "SECRET", "public", 1)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, journalName), []byte(bad), 0o600))
	for range 2 {
		require.ErrorContains(t, reopened(t, cfg)[1].Err, "its environment is missing")
		cfg.Slack = -1 << 40
	}
}

// A disk that fails refuses what is added, keeps what was, and ends the recording.
func TestQueueOnABadDisk(t *testing.T) {
	for device, why := range map[string]string{
		"/dev/full": "no space left on device", // cannot be written
		"/dev/null": "invalid argument",        // cannot be synced
	} {
		cfg := queued(t.TempDir())
		j := opened(t, cfg)
		left(t, j)
		accept(t, j, 1)
		bad, err := os.OpenFile(device, os.O_RDWR, 0)
		require.NoError(t, err)
		j.file.Close()
		j.file = bad
		more := []*task.Task{{ID: 2, Argv: []string{"x"}}}
		require.ErrorContains(t, j.Accept(more), why)
		require.ErrorContains(t, j.Accept(more), why)
		require.ErrorContains(t, j.Commit().Consume(nil), why)
		require.NoError(t, j.Close())
		got := reopened(t, cfg)
		require.Len(t, got, 1)
	}
}

// What cannot be synced is withdrawn, because it may be on disk all the same.
func TestQueueWithdraws(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	accept(t, j, 1)
	accept(t, j, 2, 3)
	j.appendNotes(appendNotes(nil, evWithdrawn, []identity{j.queue.identity(2), j.queue.identity(3)}))
	withdrawn := accept(t, j, 4)
	accept(t, j, 5)
	require.NoError(t, j.Withdraw(withdrawn))
	require.NoError(t, j.Close())
	for _, slack := range []int64{1 << 20, -1 << 40, -1 << 40} {
		cfg.Slack = slack
		got := reopened(t, cfg)
		require.Len(t, got, 2)
		require.NotNil(t, got[5])
	}
	require.NotContains(t, read(t, cfg.Dir), `"task":4`)
}

func TestQueueIsPrivate(t *testing.T) {
	parent := t.TempDir()
	modes := func(dir string) {
		cfg := queued(dir)
		j := opened(t, cfg)
		left(t, j)
		finish(t, j, 1, ends(ok).attempt(j, accept(t, j, 1)[0], 1, true))
		j.cfg.Slack = -1 << 40
		accept(t, j, 2)
		require.NoError(t, j.Close())
		for range 2 {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(entries), 3)
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), e.Name())
				require.NoError(t, os.Chmod(filepath.Join(dir, e.Name()), 0o644))
			}
			j = opened(t, cfg) // which makes them private again
			require.NoError(t, j.Close())
		}
	}
	modes(filepath.Join(parent, "new"))
	info, err := os.Stat(filepath.Join(parent, "new"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, os.Mkdir(filepath.Join(parent, "old"), 0o755))
	modes(filepath.Join(parent, "old"))
}

// Neither its environment nor more of a task than a part of its command is printed.
func TestQueueIsNotPrinted(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	tk := &task.Task{ID: 1, Argv: []string{"x", strings.Repeat("a", 200) + "SECRET"}, Bare: true, Env: []string{"P=SECRET"}, Stdin: []byte("SECRET")}
	require.NoError(t, j.Accept([]*task.Task{tk}))
	require.NoError(t, j.Close())
	require.Equal(t, 3, strings.Count(read(t, cfg.Dir), "SECRET"))
	var out bytes.Buffer
	_, err := Dump(cfg.Dir, &out)
	require.NoError(t, err)
	require.Contains(t, out.String(), `"event":"accepted"`)
	require.NotContains(t, out.String(), "SECRET")
	require.NotContains(t, out.String(), "environment")
}

// A task may be as large as the kernel lets a process be, and a little larger.
func TestQueueOfLargeTasks(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	large := strings.Repeat("x\xff", 1<<18)
	require.NoError(t, j.Accept([]*task.Task{{ID: 1, Argv: []string{large}, Bare: true, Env: []string{"A=" + large}}}))
	accept(t, j, 2)
	huge := strings.Repeat("x", maxLine)
	require.ErrorContains(t, j.Accept([]*task.Task{{ID: 3, Argv: []string{huge}}}), "at most 67108864 can be recorded")
	require.ErrorContains(t, j.Accept([]*task.Task{{ID: 3, Bare: true, Env: []string{huge}}}), "at most 67108864 can be recorded")
	accept(t, j, 3)
	require.NoError(t, j.Close())
	for range 2 {
		got := reopened(t, cfg)
		require.Len(t, got, 3)
		require.Equal(t, large, got[1].Argv[0])
		require.Equal(t, "A="+large, got[1].Env[0])
		cfg.Slack = -1 << 40
	}
}

// kept returns what is kept of a task that has ended.
func kept(j *Journal, id uint64) (stdout, stderr task.Live, ok bool) {
	p := j.Past(id)[id]
	return p.Outputs[0], p.Outputs[1], p.Kept
}

func TestOutput(t *testing.T) {
	of := func(j *Journal, id uint64) string {
		stdout, stderr, ok := kept(j, id)
		if !ok {
			return "none"
		}
		defer stdout.Close()
		defer stderr.Close()
		all := ""
		for _, live := range []task.Live{stdout, stderr} {
			b := make([]byte, 100)
			n, err := live.ReadAt(b, 0)
			require.ErrorIs(t, err, io.EOF)
			all += string(b[:n]) + "|"
		}
		return all
	}
	both := ends(func(a task.Attempt) *task.Result {
		return &task.Result{Outcome: task.OK, Stdout: text(a.Task.Argv[1]), Stderr: text("e")}
	})

	cfg := configured(t.TempDir())
	for _, name := range []string{"a", "b"} {
		j := opened(t, cfg)
		tk := first(t, j, "x "+name)
		require.Equal(t, "none", of(j, 1), "it is of another run")
		both.attempt(j, tk, 1, true)
		require.Equal(t, name+"|e|", of(j, 1))
		require.Equal(t, "none", of(j, 11))
		require.NoError(t, j.Close())
		require.Equal(t, "none", of(j, 2))
	}

	cfg = queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1, 2, 12)
	both.attempt(j, tasks[0], 1, true)
	finish(t, j, 1, ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.OK} }).attempt(j, tasks[2], 1, true))
	require.NoError(t, j.Close())
	j = opened(t, cfg)
	require.Equal(t, []string{"1|e|", "none", "||"}, []string{of(j, 1), of(j, 2), of(j, 12)})
	all := j.Past(12, 2, 1)
	require.Len(t, all, 2)
	require.Equal(t, task.OK, all[12].Outcome)
	require.Equal(t, uint64(1), all[1].Task)
	require.EqualValues(t, "x 1", all[1].Command)
}

// Tasks come and go while the journal is compacted again and again: what is
// remembered is what a model of it remembers, and the directory stays small.
func TestQueueUnderLoad(t *testing.T) {
	t.Parallel()
	n := 1001
	if os.Getenv("CREW_SOAK") != "" {
		n = 100_001
	}
	cfg := queued(t.TempDir())
	cfg.Queue.Keep, cfg.Slack = -time.Hour, 10_000
	j := opened(t, cfg)
	left(t, j)
	ended := make(chan *task.Result, 100)
	var adders sync.WaitGroup
	var mu sync.Mutex
	waiting := map[uint64]bool{}
	id := uint64(0)
	for range 4 {
		adders.Go(func() {
			for {
				mu.Lock()
				id++
				tk := &task.Task{ID: id, Argv: []string{"x", fmt.Sprint(id)}, Bare: true, Env: []string{fmt.Sprint("A=", id%5)}}
				mu.Unlock()
				if tk.ID > uint64(n) {
					return
				}
				if err := j.Accept([]*task.Task{tk}); err != nil {
					t.Error(err)
					return
				}
				if tk.ID%10 == 0 {
					mu.Lock()
					waiting[tk.ID] = true
					mu.Unlock()
					continue
				}
				ended <- ends(func(task.Attempt) *task.Result {
					return &task.Result{Outcome: task.OK, Stdout: text(strings.Repeat("o", 1000))}
				}).attempt(j, tk, 1, true)
			}
		})
	}
	go func() { adders.Wait(); close(ended) }()
	most := int64(0)
	seen := 0
	for r := range ended {
		if seen++; seen%50 == 0 {
			finish(t, j, 1, r)
			most = max(most, size(t, cfg.Dir))
			continue
		}
		j.Shown(&shower{}).Consume([]task.Event{
			{Kind: task.Finished, ID: r.Task.ID, Task: r.Task, Result: r, Attempt: 1}, {Kind: task.Released, ID: r.Task.ID, Last: r.Task.ID},
		})
	}
	if n > 10_000 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Log("directory at most", most, "bytes; heap", m.HeapAlloc)
		require.Less(t, m.HeapAlloc, uint64(20<<20))
		require.Less(t, most, int64(n)*1000/2) // of fewer, a slow disk holds most before the first compaction has ended
	}
	require.NoError(t, j.Close())
	require.Error(t, j.Accept(nil))
	cfg.Slack = -1 << 40
	got := reopened(t, cfg)
	require.Less(t, size(t, cfg.Dir), int64(n)*1000/10)
	require.Len(t, got, len(waiting))
	for id, tk := range got {
		require.True(t, waiting[id])
		require.Equal(t, []string{fmt.Sprint("A=", id%5)}, tk.Env)
	}
	j = opened(t, cfg)
	require.Equal(t, uint64(n), j.Last(), "it is known although most are forgotten")
}

// What is forgotten while the run goes on is gone, with its output, and the rest
// stays, and can be added to.
func TestQueueForgets(t *testing.T) {
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	fill := ends(func(task.Attempt) *task.Result {
		return &task.Result{Outcome: task.Exit, Code: 1, Stdout: text(strings.Repeat("o", 200<<10))}
	})
	tasks := accept(t, j, 1, 2, 3, 4, 5)
	forgotten := func(ids ...uint64) {
		t.Helper()
		require.NoError(t, j.compact(nil, nil))
		for id := range uint64(3) {
			stdout, stderr, ok := kept(j, id+1)
			require.Equal(t, !slices.Contains(ids, id+1), ok)
			if ok {
				b := make([]byte, 200<<10)
				_, err := stdout.ReadAt(b, 0)
				require.NoError(t, err)
				require.Equal(t, b, bytes.Repeat([]byte("o"), 200<<10))
				require.NoError(t, errors.Join(stdout.Close(), stderr.Close()))
			}
		}
	}
	r1, r2 := fill.attempt(j, tasks[0], 1, true), fill.attempt(j, tasks[1], 1, true)
	finish(t, j, 1, r1)
	held, stderr, ok := kept(j, 1)
	require.True(t, ok)
	defer held.Close()
	defer stderr.Close()
	fill.attempt(j, tasks[2], 1, true)
	j.Started(task.Attempt{Task: tasks[3], Number: 1}, false)
	fill.attempt(j, tasks[4], 1, false)
	forgotten() // because it is not long ago
	require.Greater(t, size(t, cfg.Dir), int64(600<<10))

	j.cfg.Queue.Keep, j.cfg.Slack = -time.Hour, -1<<40
	forgotten(1) // the others are not shown yet
	j.cfg.Slack = cfg.Slack
	require.Less(t, size(t, cfg.Dir), int64(500<<10))
	b := make([]byte, 200<<10)
	_, err := held.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, b, bytes.Repeat([]byte("o"), 200<<10), "it is still being read")
	finish(t, j, 1, r2)
	accept(t, j, 6)
	forgotten(1, 2)
	require.Equal(t, 1, strings.Count(read(t, cfg.Dir), `"event":"environment"`))
	s, last := dumped(t, cfg.Dir)
	require.Equal(t, []int{1, 1, 2}, []int{last[0], s.Running, s.Waiting})
	require.False(t, s.Begun.IsZero())
	require.NoError(t, os.Mkdir(filepath.Join(cfg.Dir, newName), 0o700))
	require.Error(t, j.compact(nil, nil))
	accept(t, j, 7)
	require.NoError(t, j.Close())

	for range 2 {
		j = opened(t, cfg)
		waits, _ := j.Resumed()
		require.Equal(t, Resumed{Waiting: 4, Tasks: 1, Failed: 1, Interrupted: waits.Interrupted}, waits)
		got := left(t, j)
		require.Len(t, got, 5)
		require.NotNil(t, got[3].Done)
		require.False(t, got[3].Done.Earlier)
		require.Len(t, known(got[5]).Before, 1, "its failed attempt")
		require.Equal(t, []int{1, 1}, []int{got[5].Attempts, int(got[5].Failures)})
		for _, id := range []uint64{4, 5, 6, 7} {
			require.Len(t, got[id].Env, 2)
		}
		require.NoError(t, j.Close())
		cfg.Slack = -1 << 40
	}
}

// However often a queue is opened, what ended long ago does not pile up.
func TestQueueStaysSmall(t *testing.T) {
	cfg := queued(t.TempDir())
	cfg.Queue.Keep, cfg.Slack = -time.Hour, 10_000
	for round := range uint64(30) {
		j := opened(t, cfg)
		left(t, j)
		for _, tk := range accept(t, j, round*2+1, round*2+2) {
			r := ends(func(task.Attempt) *task.Result {
				return &task.Result{Outcome: task.Exit, Stdout: text(strings.Repeat("o", 1000))}
			})
			finish(t, j, 1, r.attempt(j, tk, 1, true))
		}
		require.NoError(t, j.Close())
		for _, name := range []string{journalName, outputName(j.out.files[0].first)} {
			info, err := os.Stat(filepath.Join(cfg.Dir, name))
			require.NoError(t, err)
			require.Less(t, info.Size(), int64(20_000), name)
		}
	}
}

// size returns how much disk space a directory takes.
func size(t testing.TB, dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return n
}
