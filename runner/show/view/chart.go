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
	Most  int64  // tasks in the fullest bin
	Marks []mark // labels of the axis
}

// mark labels the axis at X percent of the width.
type mark struct {
	From time.Duration
	X    float64
}

func histogram(bins []history.Bin) (h bars) {
	h.Bins = bins
	for i, b := range bins {
		h.Most = max(h.Most, b.Tasks)
		if i%((len(bins)+5)/6) == 0 {
			h.Marks = append(h.Marks, mark{b.From, 100 * float64(i) / float64(len(bins))})
		}
	}
	return h
}

// spark returns a sparkline of a figure over the runs that have tasks, with a dot at the last one.
func spark(name string, runs []history.Figures, of func(history.Figures) float64) template.HTML {
	points, last, most := "", "", 0.0
	for i, f := range runs {
		if f.Tasks > 0 {
			last = fmt.Sprintf(" %d,%.4g", i, -of(f))
			points, most = points+last, max(most, of(f))
		}
	}
	if points == "" || most == 0 { // a red line of zeros would look like an alarm
		return ""
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers, and names of our own
		`<svg class="spark %[1]s" width="90" height="18" viewBox="0 -%.4[2]g %[3]d %.4[2]g" preserveAspectRatio="none" role="img" aria-label="%[1]s"><polyline points="%[4]s"/><polyline class="dot" points="%[5]s%[5]s"/></svg>`,
		name, most, max(1, len(runs)-1), points, last))
}

// sparks returns sparklines of the mean and the failures over the runs that have tasks, or "" if these are
// fewer than leastSamples.
func sparks(runs []history.Figures) (lines [2]template.HTML) {
	ran := 0
	for _, f := range runs {
		ran += int(min(f.Tasks, 1))
	}
	if ran < leastSamples {
		return lines
	}
	return [2]template.HTML{
		spark("mean", runs, func(f history.Figures) float64 { return f.Mean.Seconds() }),
		spark("failures", runs, func(f history.Figures) float64 { return float64(f.Failed) }),
	}
}

// parallelism returns how many tasks ran at once on average: their total time divided by that of the runs.
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
