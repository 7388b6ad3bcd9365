package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// Every line is JSON that says what went in, whatever the command looks like.
func TestLinesAreJSON(t *testing.T) {
	for _, command := range []string{"", `a","outcome":"ok`, "q\"\\\n\t\x00\x1b\x7f", "é\xff世界", `\`, "]}", strings.Repeat("é", maxCommand)} {
		tk := &task.Task{ID: 7, Argv: []string{"sh", "-c", command}, Shell: true, Identity: identity{1, 2, 3}}
		r := &task.Result{Outcome: task.Exit, Code: 3, Argv: tk.Argv}
		line := seal(appendExtent(appendResult(nil, evEnded, tk, r), "stdout", extent{12, 34, 1<<32 - 1}), 0)
		var m map[string]any
		require.NoError(t, json.Unmarshal(line, &m), "%s", line)
		body, ok := unseal(line)
		require.True(t, ok)
		id, ok := taskOf(body)
		require.True(t, ok)
		require.Equal(t, tk.Identity, id)
		require.Equal(t, "exit", string(field(body, "outcome")), "%s", line)
		rec, err := parse(body)
		require.NoError(t, err)
		require.Equal(t, extent{12, 34, 1<<32 - 1}, rec.Stdout)
		require.Equal(t, 3, *rec.Exit)
		require.EqualValues(t, task.Shorten(command, maxCommand), rec.Command)

		for i := range line {
			bad := bytes.Clone(line)
			bad[i] ^= 1
			_, ok := unseal(bad)
			require.False(t, ok, "byte %d", i)
		}
	}
}

func TestMembersBehindAListOfObjects(t *testing.T) {
	body := []byte(`{"event":"ended","attempts":[{"error":"]\"[","units":["a:0"],"exit":1},{"exit":2}],"shown":true`)
	require.Nil(t, field(body, "exit"))
	require.Equal(t, "true", string(field(body, "shown")))
}

func TestIdentity(t *testing.T) {
	different := []*task.Task{
		{Argv: []string{"a"}},
		{Argv: []string{"a", ""}},
		{Argv: []string{"a", "b"}},
		{Argv: []string{"ab"}},
		{Argv: []string{"a"}, Shell: true},
		{Argv: []string{"a"}, Marks: []task.Mark{{}}},
		{Argv: []string{"a"}, Dir: "b"},
		{Argv: []string{"a"}, Env: []string{"b"}},
		{Argv: []string{"a"}, Env: []string{"b", "c"}},
		{Argv: []string{"a"}, Stdin: []byte{}},
		{Argv: []string{"a"}, Stdin: []byte("b")},
		{Err: os.ErrInvalid, Records: [][]string{{"a"}, {"b"}}},
		{Err: os.ErrInvalid, Records: [][]string{{"a", "b"}}},
		{Err: os.ErrInvalid, Object: "{}"},
		{Makes: &task.Making{Targets: []task.Target{{Path: "a"}}}},
		{Makes: &task.Making{Targets: []task.Target{{Path: "a"}, {Path: "b"}}}},
		{Makes: &task.Making{Targets: []task.Target{{Path: "a"}}}, Dir: "b"},
	}
	var h hasher
	seen := map[identity]int{}
	for i, tk := range different {
		id := h.of(tk)
		require.NotContains(t, seen, id, "%d", i)
		seen[id] = i
		for n := uint32(2); n < 4; n++ {
			next := h.occurrence(id, n)
			require.NotContains(t, seen, next)
			seen[next] = i
		}
		again := *tk
		again.ID, again.Key, again.Cost, again.Tag, again.Timeout = 9, "k", 9, "t", 9
		require.Equal(t, id, h.of(&again), "what it does, and nothing else, makes the task")
	}
}

// TestTable: entries come and go between memory and file, and where the file takes no more,
// or there is none, they stay in memory.
func TestTable(t *testing.T) {
	for _, limit := range []string{"", "full", "no file"} {
		table, want := newTable(map[string]string{"": t.TempDir(), "full": t.TempDir(), "no file": "/nowhere"}[limit], 0), map[identity]uint32{}
		defer table.close()
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 100_000 {
			if limit == "full" && i == 30_000 {
				var err error
				table.file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", table.file.Fd()))
				require.NoError(t, err) // it can be read, but nothing can be added
			}
			id := identity{0: byte(r.IntN(256)), 1: byte(r.IntN(160)), 9: byte(r.IntN(2))}
			if r.IntN(2) == 0 {
				e := table.find(id)
				holds(t, want[id] > 0 == (e != nil))
				continue
			}
			e := table.add(id)
			holds(t, want[id] == e.seen)
			e.seen++
			want[id]++
		}
		require.Equal(t, limit != "", table.full)
		require.Equal(t, limit != "no file", table.file != nil, "there are more than fit into memory")
		n := 0
		for e := range table.all {
			holds(t, want[e.id] == e.seen)
			n++
		}
		require.Equal(t, len(want), n)
		require.NoError(t, table.err)
		require.GreaterOrEqual(t, n*32/10, len(table.index), "at most 24 bytes a task, and half of that before it grows")
	}
	e := entry{}
	e.setOffset(1<<47 + 5)
	require.Equal(t, int64(1<<47+5), e.offset())
}

func holds(t *testing.T, ok bool) {
	t.Helper()
	if !ok {
		t.Fatal("it is not as it should be")
	}
}

// lines are a good journal, cut into its lines.
func lines(t *testing.T) (dir string, all []string) {
	t.Helper()
	cfg := configured(t.TempDir())
	run(t, cfg, ok, "x a", "x b", "x c")
	all = strings.SplitAfter(read(t, cfg.Dir), "\n")
	return cfg.Dir, all[:len(all)-1]
}

// However a journal is cut, what its whole lines say is known, and it can be gone on with.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	dir, _ := lines(t)
	cfg := queued(t.TempDir())
	j := opened(t, cfg)
	left(t, j)
	tasks := accept(t, j, 1)
	accept(t, j, 2, 3)
	finish(t, j, 1, ends(ok).attempt(j, tasks[0], 1, true))
	require.NoError(t, j.Accept([]*task.Task{{ID: 4, Argv: []string{"x"}, Bare: true, Env: []string{"B=2"}}}))
	require.NoError(t, j.Withdraw([]*task.Task{{Identity: j.queue.identity(3)}}))
	require.NoError(t, j.Close())
	for _, cfg := range []Config{configured(dir), cfg} {
		cfg.Notice = func(s string) { t.Fatal(s) }
		whole := []byte(read(t, cfg.Dir))
		path, output := filepath.Join(cfg.Dir, journalName), filepath.Join(cfg.Dir, outputName(0))
		kept, err := os.ReadFile(output)
		require.NoError(t, err)
		for n := bytes.IndexByte(whole, '\n') + 1; n < len(whole); n += 1 + rand.IntN(15) {
			garbage := []string{"", "\x00\x00\x00", "{\"event\":\"ended\"}\ngarbage\n"}[rand.IntN(3)]
			require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole[:n]), garbage...), 0o600))
			require.NoError(t, os.WriteFile(output, kept, 0o600))
			isDone, waits := truth(whole[:n])
			j := opened(t, cfg)
			now, _ := j.Resumed()
			require.Equal(t, []int{len(isDone), len(waits)}, []int{now.Tasks, now.Waiting}, "%d bytes", n)
			if cfg.Queue != nil {
				for id, tk := range left(t, j) {
					require.Equal(t, waits[string(appendID(nil, tk.Identity))], tk.Done == nil)
					require.NoError(t, tk.Err)
					require.True(t, id != 4 || len(tk.Env) == 1)
				}
			}
			require.NoError(t, j.Close())
			_, err := Dump(cfg.Dir, io.Discard)
			require.NoError(t, err, "what comes after stands on a line of its own")
		}
	}
}

func TestDamageIsReported(t *testing.T) {
	dir, all := lines(t)
	var bad int
	for i, l := range all {
		if strings.Contains(l, `"event":"ended"`) && strings.Contains(l, `"x b"`) {
			bad = i
		}
	}
	at := len(strings.Join(all[:bad], ""))
	broken := bytes.Clone([]byte(strings.Join(all, "")))
	broken[at+len(all[bad])/2] ^= 0x20
	require.NoError(t, os.WriteFile(filepath.Join(dir, journalName), broken, 0o666))

	cfg := configured(dir)
	var said []string
	cfg.Notice = func(s string) { said = append(said, s) }
	_, ran := run(t, cfg, ok, "x a", "x b", "x c")
	require.Equal(t, []string{"x b"}, ran, "never taken for done")
	d := Damage{Line: int64(bad + 1), At: int64(at), Lines: 1, Before: int64(bad), After: int64(len(all) - bad - 1)}
	require.Equal(t, []string{filepath.Join(dir, journalName) + ": " + d.String()}, said)
	require.Regexp(t, `^line \d+ at byte \d+ is damaged and left out; \d+ good before it, \d+ after$`, d.String())
	d.Lines = 3
	require.Regexp(t, `^line \d+ at byte \d+ and 2 more are damaged`, d.String())

	_, err := Dump(dir, io.Discard)
	require.ErrorContains(t, err, "is damaged")
}

// The ends of tasks that ended twice are told apart, in bounded memory.
func TestDumpOfMany(t *testing.T) {
	cfg := configured(t.TempDir())
	j := opened(t, cfg)
	const tasks = 30_000
	start := time.Now()
	var lines []byte
	write := func(n, attempt int, o task.Outcome, took time.Duration) {
		r := &task.Result{Outcome: o, Code: 3, Attempt: attempt, Worker: 1, Start: start, End: start.Add(took), User: took / 2}
		tk := &task.Task{ID: uint64(n), Argv: []string{"x", strconv.Itoa(n)}}
		binary.LittleEndian.PutUint64(tk.Identity[:], uint64(n))
		lines = append(lines, seal(appendStarted(nil, task.Attempt{Task: tk, Number: attempt, Slot: task.Slot{ID: 1}}, start), 0)...)
		lines = append(lines, seal(appendResult(nil, evEnded, tk, r), 0)...)
	}
	for n := tasks; n > 0; n-- {
		write(n, 1, task.Exit, time.Millisecond)
	}
	for n := 51; n <= tasks; n++ {
		write(n, 2, task.OK, time.Second+time.Duration(n)*time.Microsecond)
	}
	j.appendNotes(lines)
	j.Started(task.Attempt{Task: &task.Task{Argv: []string{"x", "c"}}}, false)
	before := heap()
	s, err := Dump(cfg.Dir, io.Discard)
	require.NoError(t, err)
	require.Less(t, heap()-before, int64(1<<20))
	require.NoError(t, j.Close())

	_, last := dumped(t, cfg.Dir)
	require.Equal(t, []int{tasks, 50, tasks - 50}, []int{last[0], last[task.Exit], last[task.OK]})
	require.Equal(t, cfg.Command, s.Command)
	require.WithinDuration(t, time.Now(), s.Begun, time.Hour)
	require.Equal(t, []int{1, tasks}, []int{s.Running, s.Unshown})
	require.EqualValues(t, "x c", s.Interrupted[0].Command)
}

// dumped returns what Dump returns, and the numbers of tasks that ended last with each
// outcome, with that of all at 0.
func dumped(t *testing.T, dir string) (*Summary, [task.Outcomes]int) {
	var text bytes.Buffer
	s, err := Dump(dir, &text)
	require.NoError(t, err)
	var last [task.Outcomes]int
	for l := range bytes.Lines(text.Bytes()) {
		var o task.Outcome
		if event(l) == evEnded && field(l, "again") == nil {
			require.NoError(t, o.UnmarshalText(field(l, "outcome")))
			last[o]++
			last[0]++
		}
	}
	return s, last
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
