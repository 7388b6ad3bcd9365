package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestLinesAreJSON checks that lines are JSON with the right values, whatever the command looks
// like, and that a change of any byte is detected.
func TestLinesAreJSON(t *testing.T) {
	for _, command := range []string{"", `a","outcome":"ok`, "q\"\\\n\t\x00\x1b\x7f", "é\xff世界", `\`, "]}", strings.Repeat("é", maxCommand)} {
		tk := &task.Task{ID: 7, Argv: []string{"sh", "-c", command}, Shell: true, Identity: identity{1, 2, 3}}
		r := &task.Result{Outcome: task.Exit, Code: 3, Argv: tk.Argv}
		line := seal(appendExtent(appendResult(nil, evEnded, tk, r), "stdout", extent{12, 34, 1<<32 - 1}), 0)
		require.True(t, json.Valid(line), "%s", line)
		body, ok := unseal(line)
		require.True(t, ok)
		_, id := parseEvent(body)
		rec, err := parse(body)
		require.NoError(t, err)
		require.Equal(t, []any{tk.Identity, "exit", extent{12, 34, 1<<32 - 1}, 3, task.Bytes(task.Shorten(command, maxCommand))},
			[]any{id, string(field(body, "outcome")), rec.Stdout, *rec.Exit, rec.Command})
		for i := range line {
			line[i] ^= 1
			_, ok := unseal(line)
			require.False(t, ok, "byte %d", i)
			line[i] ^= 1
		}
	}
}

func TestMembersBehindAListOfObjects(t *testing.T) {
	body := []byte(`{"event":"ended","attempts":[{"error":"]\"[","units":["a:0"],"exit":1},{"exit":2}],"shown":true`)
	require.Nil(t, field(body, "exit"))
	require.Equal(t, "true", string(field(body, "shown")))
}

// TestIdentity checks that identities depend on the task's work, or on the files it makes, and on
// nothing else.
func TestIdentity(t *testing.T) {
	rows, lines := crewtest.Rows[struct {
		Task task.Task
		Bad  bool // it cannot run
	}]("testdata/identities.jsonl")
	var h hasher
	seen := map[identity]int{}
	for i := range rows {
		tk := &rows[i].Task
		if rows[i].Bad {
			tk.Err = os.ErrInvalid
		}
		id, _ := h.identify(tk)
		for _, one := range []identity{id, h.occurrence(id, 2), h.occurrence(id, 3)} {
			require.Zero(t, seen[one], "lines %d and %d", seen[one], lines[i])
			seen[one] = lines[i]
		}
		again := *tk
		again.ID, again.Key, again.Cost, again.Tag, again.Timeout = 9, "k", 9, "t", 9
		same, _ := h.identify(&again)
		require.Equal(t, id, same)
	}
}

// TestTable checks that entries move between memory and the file, and that they stay in memory if
// the file is full or there is none.
func TestTable(t *testing.T) {
	for _, limit := range []string{"", "full", "no file"} {
		table, want := newTable(map[string]string{"": t.TempDir(), "full": t.TempDir(), "no file": "/nowhere"}[limit], 0), map[identity]uint32{}
		defer table.close()
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 50_000 {
			if limit == "full" && i == 20_000 {
				var err error
				table.file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", table.file.Fd()))
				require.NoError(t, err) // readable, but not writable
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
		require.Equal(t, limit == "", len(table.pages) <= maxPages)
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
	table, id := newTable(t.TempDir(), 0), func(n int) identity { return identity{byte(n), byte(n >> 8)} }
	for n := range 80 * pageLen {
		if table.add(id(n)); n%pageLen == 0 { // a page with one entry leaves memory, too
			i := 0
			for e := range table.all {
				holds(t, e.id == id(i))
				i++
			}
		}
	}
}

func holds(t *testing.T, ok bool) {
	t.Helper()
	if !ok {
		t.Fatal("it is not as it should be")
	}
}

// dumped returns the results of Dump: the summary, and how many tasks ended with each outcome, with
// the total at index 0.
func dumped(t testing.TB, dir string) (*Summary, [task.Outcomes]int) {
	var text bytes.Buffer
	s, err := Dump(dir, &text)
	require.NoError(t, err)
	var last [task.Outcomes]int
	for l := range bytes.Lines(text.Bytes()) {
		var o task.Outcome
		if ev, _ := parseEvent(l); string(ev) == evEnded && field(l, "again") == nil {
			require.NoError(t, o.UnmarshalText(field(l, "outcome")))
			last[o]++
			last[0]++
		}
	}
	return s, last
}
