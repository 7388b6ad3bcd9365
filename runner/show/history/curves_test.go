package history

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// TestCurves compares the curves of random tasks with sums over each period.
func TestCurves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := NewFold()
		f.Source("log")
		f.Add(&Line{Event: control.Event{Name: Began}})
		type ran struct {
			from, to int64
			failed   bool
		}
		var all []ran
		span := 1 + r.Int64N(int64(time.Second)<<r.IntN(20))
		for id := range uint64(1 + r.IntN(50)) {
			start := time.Unix(1_700_000_000, r.Int64N(span))
			took := time.Duration(r.Int64N(span))
			line := &Line{Event: control.Event{Name: "finished"}, Facts: task.Facts{
				Task: id + 1, Attempt: 1, Worker: 1, Start: start, Duration: task.Seconds(took), Outcome: task.OK,
			}}
			if r.IntN(3) == 0 {
				line.Outcome = task.Exit
			}
			f.Add(line)
			all = append(all, ran{start.UnixNano(), start.Add(took).UnixNano(), line.Outcome == task.Exit})
		}
		report := f.Report()
		c, begin, end := report.Curves, report.Runs[0].Start.UnixNano(), report.Runs[0].End.UnixNano()
		require.LessOrEqual(t, len(c.Points), 1000)
		for i, p := range c.Points {
			from := c.Start.UnixNano() + int64(i)*int64(c.Width)
			to := from + int64(c.Width)
			want := Point{}
			for _, a := range all {
				if from <= a.to && a.to < to {
					want.Ended++
					if a.failed {
						want.Failed++
					}
				}
				want.Running += float64(max(0, min(a.to, to)-max(a.from, from))) / float64(max(1, min(to, end)-max(from, begin)))
			}
			require.InDelta(t, want.Running, p.Running, 1e-6)
			p.Running, want.Running = 0, 0
			require.Equal(t, want, p)
		}
	}
}

// TestCurvesOfSeveralRuns checks that sources may come in any order, overlap and end after 2262.
func TestCurvesOfSeveralRuns(t *testing.T) {
	long, short := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{2, 3}
	for _, sources := range [][][]int{{long, short}, {short, long}, {{8, 9}, {0, 1}}} {
		for _, took := range []time.Duration{time.Second, math.MaxInt64} {
			f := NewFold()
			for _, starts := range sources {
				f.Source("log")
				for id, at := range starts {
					f.Add(&Line{Event: control.Event{Name: "finished"}, Facts: task.Facts{
						Task: uint64(id + 1), Attempt: 1, Start: time.Unix(1_700_000_000+int64(at), 0), Duration: task.Seconds(time.Second), Outcome: task.OK,
					}})
				}
				f.Add(&Line{Event: control.Event{Name: "finished"}, Facts: task.Facts{
					Task: 100, Attempt: 1, Start: time.Unix(1_700_000_000+int64(starts[0]), 0), Duration: task.Seconds(took), Outcome: task.OK,
				}})
			}
			for _, p := range f.Report().Curves.Points {
				require.LessOrEqual(t, p.Running, 4.0)
			}
		}
	}
}
