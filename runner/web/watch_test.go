package web

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/task"
)

// TestNothingIsToldTwice: a run is watched before it is asked what was before, and tells some
// of that in both ways.
func TestNothingIsToldTwice(t *testing.T) {
	now := time.Now()
	r := newRun(control.Hello{PID: 1, Since: now.Add(-time.Hour)})
	w := &watcher{r: r, told: map[uint64]int{}, until: now}
	facts := func(id uint64, number int) control.Where {
		return control.Where{Past: task.Past{Facts: task.Facts{Task: id, Attempt: number, Outcome: task.OK, Start: now}}}
	}
	old := facts(9, 1)
	old.Start = now.Add(-2 * time.Hour) // of an earlier run with the same --state
	w.tellEnded([]control.Where{old, facts(1, 1)}, now.Add(-time.Hour))
	w.tellRunning([]control.Where{facts(1, 1), facts(2, 2)})
	for _, e := range []struct {
		name   string
		id     uint64
		number int
		at     time.Time
	}{
		{"admitted", 1, 0, now}, {"started", 1, 1, now}, {"finished", 1, 1, now},
		{"retried", 2, 1, now}, {"started", 2, 2, now}, {"finished", 2, 2, now},
		{"admitted", 3, 0, now}, {"started", 3, 1, now}, {"finished", 3, 1, now},
		{"started", 1, 1, now.Add(time.Second)}, // cannot be the one that was told
	} {
		w.take(encode(e.name, e.at, task.Facts{Task: e.id, Attempt: e.number}))
	}
	var got []string
	for _, line := range r.lines.kept {
		var l control.Reply
		require.NoError(t, json.Unmarshal(line, &l))
		got = append(got, fmt.Sprintf("%s %d.%d", l.Name, l.Task, l.Attempt))
	}
	require.Equal(t, []string{
		"finished 1.1", "started 2.2", "finished 2.2", "admitted 3.0", "started 3.1", "finished 3.1", "started 1.1",
	}, got)
}
