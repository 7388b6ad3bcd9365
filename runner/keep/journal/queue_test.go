package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestQueueHoldsWholeTasks checks that accepted tasks are restored completely, whatever bytes they
// have, that equal environments share memory, and that Dump prints neither environments nor
// specifications.
func TestQueueHoldsWholeTasks(t *testing.T) {
	w := newWorld(t, true)
	rows, _ := crewtest.Rows[struct {
		ID    uint64
		Env   words // of a bare task
		Known task.Known
		Spec  json.RawMessage
	}]("testdata/tasks.jsonl")
	require.NoError(t, w.do("open"))
	want := map[string]*task.Task{}
	for _, row := range rows {
		tk := &task.Task{ID: row.ID}
		require.NoError(t, DecodeTask(row.Spec, tk))
		if tk.Bare {
			tk.Env = row.Env
		}
		again, err := EncodeTask(tk)
		require.NoError(t, err)
		require.JSONEq(t, string(row.Spec), string(again))
		require.NoError(t, w.j.Accept([]*task.Task{tk}, ""))
		if row.Known != task.NotKnown {
			w.j.Started(task.Attempt{Task: tk, Number: 1}, false)
			tk.Makes.Known = row.Known
		}
		want[fmt.Sprint(row.ID)] = tk
	}
	for range 3 {
		require.NoError(t, w.do("close"))
		var out bytes.Buffer
		_, err := Dump(w.cfg.Dir, &out)
		require.NoError(t, err)
		require.Equal(t, len(rows), strings.Count(out.String(), `"event":"accepted"`))
		require.NotRegexp(t, "SECRET|environment", out.String())
		require.NoError(t, w.do("open"))
		require.Equal(t, want, w.tasks)
		w.cfg.Slack = -1 << 40 // compact always
	}
}

// TestQueueOfLargeTasks checks tasks of the largest size that the kernel allows, and slightly
// larger ones.
func TestQueueOfLargeTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	require.NoError(t, w.do("open"))
	large := strings.Repeat("x\xff", 1<<18)
	require.NoError(t, w.j.Accept([]*task.Task{{ID: 1, Argv: []string{large}, Bare: true, Env: []string{"A=" + large}}}, ""))
	require.ErrorContains(t, w.do("accept-huge"), "at most 67108864 can be recorded")
	require.NoError(t, w.do("accept 3"))
	require.NoError(t, w.do("close"))
	require.NoError(t, w.do("open -compact"))
	require.NoError(t, w.do("close"))
	require.NoError(t, w.do("open"))
	require.Equal(t, []string{"1", "3"}, w.order)
	require.True(t, large == w.tasks["1"].Argv[0] && "A="+large == w.tasks["1"].Env[0])
}
