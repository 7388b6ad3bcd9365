package web

import (
	"encoding/binary"
	"math"
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
	status.Slots = make([]task.Slot, 2)
	want := crewtest.ReadFile(t, "testdata/metrics.txt")
	var got strings.Builder
	require.NoError(t, exposition.Execute(&got, []*metrics{
		{Hello: control.Hello{PID: 1}},
		{Hello: control.Hello{PID: 2, Name: "x", Since: time.UnixMilli(1_700_000_000_250)}, Status: status, Took: took, Up: true},
		{Hello: control.Hello{PID: 3, Name: "x"}},
		{Hello: control.Hello{PID: 4, Name: "a \"b\\c\n\xff"}},
	}))
	require.Equal(t, want, got.String())
}

// TestCountersOfDays checks that the counters include the tasks of a day before its first minute that is kept.
func TestCountersOfDays(t *testing.T) {
	const rowSize, minutes, days = 64, 24 * 60, 366
	now := time.Now().Add(-2 * time.Minute).Unix()
	file := make([]byte, rowSize*(1+minutes+days))
	copy(file, "crew curves 1\n")
	put := func(row, start int64, ended float64) {
		for i, v := range [...]float64{float64(start), 1, ended} {
			binary.LittleEndian.PutUint64(file[rowSize*(1+row)+8*int64(i):], math.Float64bits(v))
		}
	}
	put(now/60%minutes, now/60*60, 4)
	put(minutes+now/86400%days, now/86400*86400, 10)
	dir := t.TempDir()
	crewtest.WriteFile(t, filepath.Join(dir, series.FileName), string(file), 0o600)
	var out strings.Builder
	require.NoError(t, printMetrics(&out, []string{dir}))
	require.Regexp(t, `(?m)^crew_ended_tasks_total{.*} 10 \d+\n# TYPE crew_failed`, out.String())
}
