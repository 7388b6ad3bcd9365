package view

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// The charts are SVG with coordinates in the units of their data: the view box scales them, so they
// need no script.

// outcome is a segment of a bar: N tasks. X and Width are in percent of the bar.
type outcome struct {
	Name, Kind string
	N          int64
	X, Width   float64
}

// leastWidth is the width of the narrowest segment, in percent: a few pixels on a phone, so that a
// single failure of many tasks is visible.
const leastWidth = 1

// segments removes empty segments and sets the places and widths of the others.
func segments(all []outcome) []outcome {
	all = slices.DeleteFunc(all, func(o outcome) bool { return o.N == 0 })
	total, sum, x := int64(0), 0.0, 0.0
	for _, o := range all {
		total += o.N
	}
	for i := range all {
		all[i].Width = max(leastWidth, 100*float64(all[i].N)/float64(total))
		sum += all[i].Width
	}
	for i := range all {
		all[i].Width *= 100 / sum
		all[i].X = x
		x += all[i].Width
	}
	return all
}

// outcomes returns the outcomes that occurred, failures last.
func outcomes(r *history.Report) (all []outcome) {
	for _, failed := range []bool{false, true} {
		for o, n := range r.Outcomes {
			if o := task.Outcome(o); n > 0 && o.Failed() == failed {
				all = append(all, outcome{Name: o.String(), Kind: kind(o), N: n})
			}
		}
	}
	return segments(all)
}

// bars is a histogram.
type bars struct {
	Bins  []history.Bin
	Most  int64   // tasks in the fullest bin
	Width int     // in bins
	End   float64 // of the last bin, in percent of the width
	Marks []mark  // labels of the axis
}

// mark labels the axis at X percent of the width.
type mark struct {
	From time.Duration
	X    float64
}

func histogram(bins []history.Bin) (h bars) {
	h.Bins, h.Width = bins, max(len(bins), 12) // a single bin would look like a wall
	h.End = 100 * float64(len(bins)) / float64(h.Width)
	for i, b := range bins {
		h.Most = max(h.Most, b.Tasks)
		if i%((len(bins)+5)/6) == 0 && 8*i < 7*len(bins) { // the end has a label, too
			h.Marks = append(h.Marks, mark{b.From, 100 * float64(i) / float64(h.Width)})
		}
	}
	return h
}

// spark returns a sparkline of the mean over the runs that have tasks, with a dot at the last one, or "" if these
// are fewer than leastSamples.
func spark(runs []history.Figures) template.HTML {
	points, last, ran, most := "", "", 0, 0.0
	for i, f := range runs {
		if f.Tasks > 0 {
			last = fmt.Sprintf(" %d,%.4g", i, -f.Mean.Seconds())
			points, ran, most = points+last, ran+1, max(most, f.Mean.Seconds())
		}
	}
	if ran < leastSamples || most == 0 {
		return ""
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers
		`<svg class="spark" width="90" height="18" viewBox="0 -%.4[1]g %[2]d %.4[1]g" preserveAspectRatio="none" role="img" aria-label="mean"><polyline points="%[3]s"/><polyline class="dot" points="%[4]s%[4]s"/></svg>`,
		most, len(runs)-1, points, last))
}

// runsChart is a chart with a bar for each run.
type runsChart struct {
	Name, Kind, Top string
	Bars            []runBar
}

// runBar is a run in a chart. Height is in percent of the highest bar, and Text describes the run.
type runBar struct {
	Height float64
	Text   string
}

// runsCharts returns the charts of a report over runs. A figure that is 0 in all runs has no chart, and fewer runs than
// leastSamples have none.
func runsCharts(r *history.Report) (all []runsChart) {
	if len(r.Runs) < leastSamples {
		return nil
	}
	took := func(n int64) string { return span(time.Duration(n)) }
	for _, figure := range []struct {
		name, kind string
		text       func(int64) string
		of         func(history.Figures) int64
	}{
		{"Median duration", "ok", took, func(f history.Figures) int64 { return int64(f.Median) }},
		{"95 % within", "ok", took, func(f history.Figures) int64 { return int64(f.P95) }},
		{"Failed tasks", "fail", count, func(f history.Figures) int64 { return f.Failed }},
		{"Flaky tasks", "lost", count, func(f history.Figures) int64 { return f.Flaky }},
	} {
		most := int64(0)
		for _, run := range r.Runs {
			most = max(most, figure.of(run.Figures))
		}
		if most == 0 {
			continue
		}
		c := runsChart{Name: figure.name, Kind: figure.kind, Top: figure.text(most)}
		for _, run := range r.Runs {
			n := figure.of(run.Figures)
			c.Bars = append(c.Bars, runBar{100 * float64(n) / float64(most), task.Moment(run.Start) + ": " + figure.text(n)})
		}
		all = append(all, c)
	}
	return all
}

// parallelism returns how many tasks ran at once on average: their total time divided by the time of the runs.
func parallelism(r *history.Report) string {
	wall := time.Duration(0)
	for _, run := range r.Runs {
		wall += max(0, run.End.Sub(run.Start))
	}
	if wall == 0 || r.Total.Time*20 < wall {
		return ""
	}
	return fmt.Sprintf("%.1f tasks at once", r.Total.Time.Seconds()/wall.Seconds())
}

// percent returns d in percent of most.
func percent(d, most task.Seconds) float64 { return 100 * float64(d) / float64(max(1, most)) }
