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

	"crew/runner/decide/task"
)

// truth reads a journal in the simplest possible way. It returns the done tasks and, in a queue,
// the waiting ones.
func truth(file []byte) (isDone, waits map[string]bool) {
	isDone, accepted := map[string]bool{}, map[string]bool{}
	undelivered := map[string]bool{}
	forget := func(complete bool) {
		maps.DeleteFunc(accepted, func(id string, _ bool) bool { return !complete && undelivered[id] && !isDone[id] })
		clear(undelivered)
	}
	for _, l := range bytes.SplitAfter(file, []byte("\n")) {
		i := bytes.LastIndex(l, []byte(`,"crc":"`))
		if i < 0 || string(l[i:]) != fmt.Sprintf(",\"crc\":\"%08x\"}\n", crc32.Checksum(l[:i], crc32.MakeTable(crc32.Castagnoli))) {
			continue
		}
		var r struct {
			Event, ID, Outcome string
			IDs                []string
			Tasks              int
			Delivered          bool
		}
		if json.Unmarshal(l, &r) != nil || r.ID == string(appendID(nil, identity{})) { // no task has the zero identity
			continue
		}
		switch r.Event {
		case "started":
			delete(isDone, r.ID)
		case "ended":
			isDone[r.ID] = true
		case "accepted":
			if accepted[r.ID] = true; r.Delivered {
				undelivered[r.ID] = true
			}
		case "run", "door":
			forget(r.Event == "door" && r.Tasks == len(undelivered))
		case "withdrawn":
			for _, id := range r.IDs {
				if !isDone[id] {
					delete(accepted, id)
				}
			}
		}
	}
	forget(false)
	maps.DeleteFunc(accepted, func(id string, _ bool) bool { return isDone[id] })
	return isDone, accepted
}

// FuzzLoad checks that every task recorded by a valid line is known, that no other is, and that the
// file can be continued. Lines with a right checksum may make no sense.
func FuzzLoad(f *testing.F) {
	scratch, err := os.Create(filepath.Join(f.TempDir(), "scratch"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		for sealed, rest := range [][]byte{text, seal(bytes.Clone(text), 0)} {
			file := append(headOf(0x123456789abcdef), rest...)
			l := &contents{}
			require.NoError(t, l.load(bytes.NewReader(file), int64(len(file)), "journal"))
			defer l.table.close()
			isDone, waits := map[string]bool{}, map[string]bool{}
			for e := range l.table.all {
				if id := string(appendID(nil, e.id)); e.has(done) {
					isDone[id] = true
				} else if e.spec > 0 {
					waits[id] = true
				}
				j := &Journal{cfg: Config{Notice: func(string) {}}, contents: l, out: &outputs{file: scratch}}
				_, _ = j.restoreTask(e, map[string][]string{})
				if r, err := readRecord(l.file, e.offset); err == nil {
					_, _ = r.result(&task.Task{}, j.out)
				}
			}
			if sealed == 0 {
				done, waiting := truth(file)
				require.Equal(t, []any{done, waiting, len(done)}, []any{isDone, waits, l.Done})
			}
			d := &draft{w: bufio.NewWriter(io.Discard), oldOutputs: &outputs{file: scratch}, newOutputs: &outputs{file: scratch}}
			for ln := range new(scanner).lines(bytes.NewReader(file)) {
				d.copyLine(l, ln)
			}
		}
	})
}

// headOf returns the first line of a queue's journal.
func headOf(queue int64) []byte {
	return firstLine(Command{Line: "crew x", Dir: "/"}, queue, 0, 0, time.Time{})
}
