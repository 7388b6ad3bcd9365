package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// truth returns what a journal says of the tasks that are done and, in a queue, of those
// that wait, read as slowly as can be.
func truth(file []byte) (isDone, waits map[string]bool) {
	isDone, accepted := map[string]bool{}, map[string]bool{}
	for _, l := range bytes.SplitAfter(file, []byte("\n")) {
		i := bytes.LastIndex(l, []byte(`,"crc":"`))
		if i < 0 || string(l[i:]) != fmt.Sprintf(",\"crc\":\"%08x\"}\n", crc32.Checksum(l[:i], crc32.MakeTable(crc32.Castagnoli))) {
			continue
		}
		var r struct {
			Event, ID, Outcome string
			IDs                []string
		}
		if json.Unmarshal(l, &r) != nil {
			continue
		}
		switch r.Event {
		case "started":
			delete(isDone, r.ID)
		case "ended":
			isDone[r.ID] = true
		case "accepted":
			accepted[r.ID] = true
		case "withdrawn":
			for _, id := range r.IDs {
				if !isDone[id] {
					delete(accepted, id)
				}
			}
		}
	}
	maps.DeleteFunc(accepted, func(id string, _ bool) bool { return isDone[id] })
	return isDone, accepted
}

// FuzzLoad: whatever stands in a journal, nothing is done that no good line says
// so of, all that good lines say is known, and the file can be gone on with.
func FuzzLoad(f *testing.F) {
	var whole []byte
	whole = append(whole, seal([]byte(`{"event":"run","pid":1`), 0)...)
	for i := range byte(4) {
		tk := &task.Task{ID: uint64(i), Argv: []string{"x", `","outcome":"ok`}, Identity: identity{i}}
		whole = append(whole, seal(appendStarted(nil, task.Attempt{Task: tk}, time.Unix(int64(i), 0)), 0)...)
		r := &task.Result{Outcome: task.OK + task.Outcome(i), Argv: tk.Argv}
		whole = append(whole, seal(appendExtent(appendResult(nil, evEnded, tk, r), "stdout", extent{1, 2, 3}), 0)...)
	}
	whole = appendNotes(whole, evReleased, []identity{{1}, {2}})
	whole = appendEnvironment(whole, identity{9}, []string{"A=1", "B=\xff"})
	for i := range byte(4) {
		var err error
		tk := &task.Task{ID: uint64(3 + i), Argv: []string{"x", "\xff"}, Bare: true, Identity: identity{3 + i}}
		whole, err = appendWhole(whole, evAccepted, tk, identity{9 + i}, time.Unix(int64(i), 0))
		require.NoError(f, err)
	}
	whole = appendNotes(whole, evWithdrawn, []identity{{4}, {3}})
	f.Add(whole)
	f.Add(whole[:len(whole)-100])
	f.Add(bytes.Replace(whole, []byte("ended"), []byte("enden"), 2))
	f.Add(bytes.Replace(whole, []byte("\n"), []byte("\x00"), 3))
	f.Fuzz(func(t *testing.T, rest []byte) {
		file := append(headOf("0123456789abcdef"), rest...)
		want, waits := truth(file)
		l, err := load(bytes.NewReader(file), int64(len(file)), "journal", nil)
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
		for e := range l.table.all {
			require.Equal(t, waits[string(appendID(nil, e.id))], e.spec() > 0 && !e.has(done))
		}
		require.Equal(t, len(waits), l.waiting)
	})
}

// FuzzLine: a line with a right sum is not trusted to make sense.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"event":"ended","id":"AAAAAAAAAAAAAAAAAAAAAA","outcome":"ok","duration":1e400,"stdout":[1,2,3]`))
	f.Add([]byte(`{"event":"ended","id":"AAAAAAAAAAAAAAAAAAAAAA","outcome":"skipped","made":"00"`))
	f.Add([]byte(`{"event":"released","ids":["AAAAAAAAAAAAAAAAAAAAAA",""`))
	f.Add([]byte(`{"event":"ended","outcome":"ok","stdout":[`))
	f.Add([]byte(`{"event":"known","id":"AAAAAAAAAAAAAAAAAAAAAA","duration":-1,"age":9`))
	f.Add([]byte(`{"event":"accepted","id":"AAAAAAAAAAAAAAAAAAAAAA","task":1,"environment":"AAAAAAAAAAAAAAAAAAAAAA","spec":{"bare":true}`))
	f.Add([]byte(`{"event":"accepted","id":"AAAAAAAAAAAAAAAAAAAAAA","task":-1,"spec":{"argv":[{"base64":"?"}]}`))
	f.Add([]byte(`{"event":"environment","sum":"AAAAAAAAAAAAAAAAAAAAAA","env":[1]`))
	empty, err := os.Open(os.DevNull)
	require.NoError(f, err)
	scratch, err := os.Create(filepath.Join(f.TempDir(), "scratch"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		file := append(headOf("0123456789abcdef"), seal(bytes.Clone(body), 0)...)
		l, err := load(bytes.NewReader(file), int64(len(file)), "journal", nil)
		require.NoError(t, err)
		defer l.table.close()
		for e := range l.table.all {
			if r, _, err := readRecord(l.file, e.offset()); err == nil {
				_, _ = r.result(&task.Task{}, &outputs{files: []outputFile{{File: empty}}})
			}
			j := &Journal{cfg: Config{Notice: func(string) {}}, past: l, out: outputs{files: []outputFile{{File: empty}}}}
			_, _ = j.restore(e, map[identity][]string{})
		}
		r := &rewriter{w: bufio.NewWriter(io.Discard), envs: map[identity]bool{}, from: 1}
		r.out = &outputs{files: []outputFile{{File: scratch}}}
		for ln := range new(scanned).lines(bytes.NewReader(file)) {
			r.copy(l, ln)
		}
	})
}

// headOf is the first line of the journal of a queue.
func headOf(queue string) []byte {
	return firstLine(Command{Line: "crew x", Dir: "/"}, queue, 0, time.Time{})
}
