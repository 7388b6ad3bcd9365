package web

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

// TestExposition checks that any numbers and names make a valid exposition (OpenMetrics 1.0, section 3).
func TestExposition(t *testing.T) {
	var took spread
	for _, d := range []time.Duration{0, 10 * time.Millisecond, time.Second, time.Second + 1, 1e6 * time.Hour} {
		took.add(&task.Facts{Start: time.Now(), Duration: task.Seconds(d)})
	}
	took.add(&task.Facts{Duration: 5}) // it never ran
	status := &control.Status{
		State: "paused", Rate: 1e-9, Retried: 1e15, Lost: 6, Outcomes: map[string]int64{"ok": 3, "exit": 1}, Progress: control.Progress{Running: 4, Waiting: 5},
	}
	status.At, status.Slots = time.Now(), make([]task.Slot, 2)
	want := crewtest.ReadFile(t, "testdata/metrics.txt")
	var got strings.Builder
	var all [4]shown
	for i, name := range []string{"", "x", "x", "a \"b\\c\n\xff"} {
		all[i].PID, all[i].Name = i+1, name
	}
	all[1].Since, all[1].Status, all[1].Took = time.UnixMilli(1_700_000_000_250), status, took
	require.NoError(t, exposition.Execute(&got, all))
	require.Equal(t, want, got.String())
}

// TestCountersOfDays checks that the counters include the tasks of a day before its first minute that is kept.
func TestCountersOfDays(t *testing.T) {
	now := time.Now().Add(-2 * time.Minute)
	curves := func(width time.Duration, ended float64) series.Curves {
		return series.Curves{Start: now.Truncate(width), Width: task.Seconds(width), Points: []series.Point{{series.Covered: 1, series.Ended: ended}}}
	}
	text, err := json.Marshal(map[string]any{"version": 1, "curves": []series.Curves{curves(time.Minute, 4), curves(24*time.Hour, 10)}})
	require.NoError(t, err)
	dir := t.TempDir()
	crewtest.WriteFile(t, filepath.Join(dir, series.FileName), string(text), 0o600)
	var out strings.Builder
	require.NoError(t, printMetrics(&out, []string{dir}))
	require.Regexp(t, `(?m)^crew_ended_tasks_total{.*} 10 \d+\n# TYPE crew_failed`, out.String())
}
