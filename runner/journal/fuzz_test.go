package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// truth is what a journal says, read as slowly as can be.
func truth(file []byte) map[string]bool {
	isDone := map[string]bool{}
	for _, l := range bytes.SplitAfter(file, []byte("\n")) {
		i := bytes.LastIndex(l, []byte(`,"crc":"`))
		if i < 0 || string(l[i:]) != fmt.Sprintf(",\"crc\":\"%08x\"}\n", crc32.Checksum(l[:i], crc32.MakeTable(crc32.Castagnoli))) {
			continue
		}
		var r struct{ Event, Task, Outcome string }
		if json.Unmarshal(l, &r) != nil {
			continue
		}
		switch r.Event {
		case "started":
			delete(isDone, r.Task)
		case "ended":
			isDone[r.Task] = true
		}
	}
	return isDone
}

// FuzzLoad: whatever stands in a journal, nothing is done that no good line says
// so of, all that good lines say is known, and the file can be gone on with.
func FuzzLoad(f *testing.F) {
	var whole []byte
	whole = append(whole, seal([]byte(`{"event":"run","pid":1`), 0)...)
	for i := range byte(4) {
		tk := &task.Task{ID: uint64(i), Argv: []string{"x", `","outcome":"ok`}, Identity: identity{i}}
		whole = appendStarted(whole, task.Attempt{Task: tk}, time.Unix(int64(i), 0))
		r := &task.Result{Outcome: task.OK + task.Outcome(i), Argv: tk.Argv}
		whole = appendResult(whole, evEnded, tk, r, func(b []byte) []byte {
			return appendExtent(b, "stdout", extent{1, 2, 3})
		})
	}
	whole = appendNote(whole, evReleased, []identity{{1}, {2}})
	f.Add(whole)
	f.Add(whole[:len(whole)-100])
	f.Add(bytes.Replace(whole, []byte("ended"), []byte("enden"), 2))
	f.Add(bytes.Replace(whole, []byte("\n"), []byte("\x00"), 3))
	f.Fuzz(func(t *testing.T, rest []byte) {
		file := append(head(), rest...)
		want := truth(file)
		l, err := load(bytes.NewReader(file), int64(len(file)), "journal")
		require.NoError(t, err)
		defer l.table.close()
		n := 0
		for e := range l.table.all {
			if e.has(done) {
				n++
				require.True(t, want[string(appendID(nil, e.id))])
			}
		}
		require.Equal(t, len(want), n)
		require.Equal(t, n, l.tasks)
	})
}

// FuzzLine: a line with a right sum is not trusted to make sense.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"event":"ended","task":"AAAAAAAAAAAAAAAAAAAAAA","outcome":"ok","duration":1e400,"stdout":[1,2,3]`))
	f.Add([]byte(`{"event":"released","tasks":["AAAAAAAAAAAAAAAAAAAAAA",""`))
	f.Add([]byte(`{"event":"ended","outcome":"ok","stdout":[`))
	f.Add([]byte(`{"event":"known","task":"AAAAAAAAAAAAAAAAAAAAAA","duration":-1,"age":9`))
	empty, err := os.Open(os.DevNull)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		file := append(head(), seal(bytes.Clone(body), 0)...)
		l, err := load(bytes.NewReader(file), int64(len(file)), "journal")
		require.NoError(t, err)
		defer l.table.close()
		for e := range l.table.all {
			if r, _, err := readRecord(l.file, e.offset()); err == nil {
				_, _ = r.result(&task.Task{}, &outputs{file: empty})
			}
		}
		r := &rewriter{w: bufio.NewWriter(io.Discard)}
		_, err = scan(bytes.NewReader(file), func(ln line) {
			_ = new(mover).move(l.compacted(ln, r))
		})
		require.NoError(t, err)
	})
}

// head is the first line of a journal.
func head() []byte { return appendHead(nil, Command{"crew x", "/"}, outputPrefix+"1", time.Time{}) }
