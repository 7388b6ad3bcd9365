package history

import (
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

// TestCurvesWait checks how many tasks waited on average, and that a killed run leaves none waiting.
func TestCurvesWait(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1_700_000_000, int64(s*1e9)) }
	line := func(name string, id uint64, s float64) *Line {
		l := &Line{Event: control.Event{Name: name, At: at(s)}, Facts: task.Facts{Task: id}}
		if name == "started" {
			l.Attempt, l.Worker, l.Start = 1, 1, at(s)
		}
		return l
	}
	f := NewFold()
	f.Source("run")
	f.Add(line(Began, 0, 0))
	f.Add(line("admitted", 1, 0))
	f.Add(line("admitted", 2, 0))
	f.Add(line("started", 1, 0.15)) // two waited for 0.15 s
	f.Add(line("blocked", 0, 0.5))  // the last line: one waited until then
	f.Add(line(Began, 0, 9))
	f.Add(line("admitted", 3, 9.5))
	f.Add(line("started", 3, 9.6))
	c := f.Report().Curves
	require.Len(t, c.Points, 10)
	require.InDelta(t, 2*0.15+0.35, c.Points[0].Waiting, 1e-6)
	require.InDelta(t, 0.35, c.Points[0].Running, 1e-6)
	require.Zero(t, c.Points[1].Waiting)
	require.InDelta(t, 0.1/0.6, c.Points[9].Waiting, 1e-6, "the run covers 0.6 s of the last period")
}
