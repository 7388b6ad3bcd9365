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
	"strings"
	"testing"

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
		for i := range 50_000 {
			if limit == "full" && i == 20_000 {
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

// Damage is told of, and what it hits is never taken for done.
func TestDamageIsReported(t *testing.T) {
	w := newWorld(t, false)
	for _, step := range []string{"open a b c", "ok a b c", "show a b c", "close"} {
		require.NoError(t, w.do(step))
	}
	path := filepath.Join(w.cfg.Dir, journalName)
	all := read(t, w.cfg.Dir)
	at := strings.Index(all, `"outcome":"ok"`)
	at += strings.Index(all[at+1:], `"outcome":"ok"`) // of b
	first := strings.LastIndex(all[:at], "\n") + 1
	require.NoError(t, os.WriteFile(path, []byte(all[:at]+"!"+all[at+1:]), 0o600))
	before := int64(strings.Count(all[:first], "\n"))
	d := Damage{Line: before + 1, At: int64(first), Lines: 1, Before: before, After: int64(strings.Count(all, "\n")) - before - 1}

	require.NoError(t, w.do("open a b c"))
	require.Equal(t, []string{path + ": " + d.String()}, w.notices)
	require.Equal(t, "ok shown logged took 1", w.view("a"))
	require.Empty(t, w.view("b"))
	require.Regexp(t, `^line \d+ at byte \d+ is damaged and left out; \d+ good before it, \d+ after$`, d.String())
	d.Lines = 3
	require.Regexp(t, `^line \d+ at byte \d+ and 2 more are damaged`, d.String())
	_, err := Dump(w.cfg.Dir, io.Discard)
	require.ErrorContains(t, err, "is damaged")
}

// A dump takes little memory, however many tasks have ended.
func TestDumpOfMany(t *testing.T) {
	w := newWorld(t, false)
	require.NoError(t, w.do("open"))
	const tasks = 20_000
	var lines []byte
	for n := range uint64(2 * tasks) { // each ends twice
		tk := &task.Task{ID: n % tasks, Argv: []string{"x"}}
		binary.LittleEndian.PutUint64(tk.Identity[:], tk.ID)
		lines = append(lines, seal(appendResult(nil, evEnded, tk, &task.Result{Outcome: task.OK}), 0)...)
	}
	w.j.appendNotes(lines)
	before := heap()
	s, err := Dump(w.cfg.Dir, io.Discard)
	require.NoError(t, err)
	require.Less(t, heap()-before, int64(1<<20))
	require.Equal(t, tasks, s.Unshown)
	require.Equal(t, w.cfg.Command, s.Command)
}

// dumped returns what Dump returns, and the numbers of tasks that ended last with each
// outcome, with that of all at 0.
func dumped(t testing.TB, dir string) (*Summary, [task.Outcomes]int) {
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
