package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

// TestCurves compares how many random tasks ran with sums over each period.
func TestCurves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := NewFold()
		f.Source("log")
		f.Add(&Line{Event: control.Event{Name: Began}})
		var all [][2]int64 // when they began and ended
		span := 1 + r.Int64N(int64(time.Second)<<r.IntN(20))
		for id := range uint64(1 + r.IntN(50)) {
			start, took := time.Unix(1_700_000_000, r.Int64N(span)), r.Int64N(span)
			f.Add(&Line{Event: control.Event{Name: "finished", At: start.Add(time.Duration(took))}, Facts: task.Facts{
				Task: id + 1, Attempt: 1, Worker: 1, Start: start, Duration: task.Seconds(took), Outcome: task.OK,
			}})
			all = append(all, [2]int64{start.UnixNano(), start.UnixNano() + took})
		}
		report := f.Report()
		c, begin, end := report.Curves, report.Runs[0].Start.UnixNano(), report.Runs[0].End.UnixNano()
		require.LessOrEqual(t, len(c.Points), 1000)
		ended := 0
		for i, p := range c.Points {
			from := c.Start.UnixNano() + int64(i)*int64(c.Width)
			to, want := from+int64(c.Width), 0.0
			for _, a := range all {
				want += float64(max(0, min(a[1], to)-max(a[0], from))) / float64(max(1, min(to, end)-max(from, begin)))
			}
			require.InDelta(t, want, p[series.Running], 1e-6)
			ended += int(p[series.Ended])
		}
		require.Len(t, all, ended)
	}
}
