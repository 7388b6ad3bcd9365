package view

import (
	"fmt"
	"math"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
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
	Marks []mark
}

// mark labels an axis at X percent of the width.
type mark struct {
	Text string
	X    float64
}

func histogram(bins []history.Bin) (h bars) {
	h.Bins, h.Width = bins, max(len(bins), 12) // a single bin would look like a wall
	h.End = 100 * float64(len(bins)) / float64(h.Width)
	for i, b := range bins {
		h.Most = max(h.Most, b.Tasks)
		if i%((len(bins)+5)/6) == 0 && 8*i < 7*len(bins) { // the end has a label, too
			h.Marks = append(h.Marks, mark{span(b.From), 100 * float64(i) / float64(h.Width)})
		}
	}
	return h
}

// spark returns the points of a sparkline: the means over the runs that have tasks, in percent of the largest. It returns
// nil if these are fewer than leastSamples.
func spark(runs []history.Figures) (points []string) {
	most := time.Duration(0)
	for _, f := range runs {
		most = max(most, f.Mean)
	}
	for i, f := range runs {
		if f.Tasks > 0 {
			points = append(points, fmt.Sprintf("%.4g,-%.4g", 100*float64(i)/float64(len(runs)-1), 100*float64(f.Mean)/float64(most)))
		}
	}
	if len(points) < leastSamples || most == 0 {
		return nil
	}
	return points
}

// figure is what a chart can show.
type figure struct {
	name, kind string // kind is the CSS class of its colour
	text       func(float64) string
}

// chart shows a figure over periods or runs.
type chart struct {
	Name, Kind, Top string    // Top is the largest value
	Values          []float64 // in percent of that
	Texts           []string  // for people
}

// charts returns the charts of figures. The values of a point are in the order of the figures. A figure that is always 0
// has no chart.
func charts(figures []figure, points [][]float64) (all []chart) {
	for i, f := range figures {
		most := 0.0
		for _, p := range points {
			most = max(most, p[i])
		}
		if most == 0 {
			continue
		}
		c := chart{Name: f.name, Kind: f.kind, Top: f.text(most)}
		for _, p := range points {
			c.Values, c.Texts = append(c.Values, 100*p[i]/most), append(c.Texts, f.text(p[i]))
		}
		all = append(all, c)
	}
	return all
}

func took(n float64) string { return span(time.Duration(n)) }

// number formats a number with three digits, or all that are before the point.
func number(n float64) string {
	switch {
	case n >= 100:
		return count(int64(math.Round(n)))
	case n > 0 && n < 0.001:
		return "< 0.001"
	}
	return fmt.Sprintf("%.3g", n)
}

// runsCharts returns the charts of a report over runs, or nil if there are fewer than leastSamples.
func runsCharts(r *history.Report) []chart {
	if len(r.Runs) < leastSamples {
		return nil
	}
	var points [][]float64
	for _, f := range r.Runs {
		points = append(points, []float64{float64(f.Median), float64(f.P95), float64(f.Failed), float64(f.Flaky)})
	}
	return charts([]figure{{"Median duration", "ok", took}, {"95 % within", "ok", took}, {"Failed tasks", "fail", number}, {"Flaky tasks", "lost", number}}, points)
}

// curves are charts over the same time.
type curves struct {
	Title    string
	List     []chart
	Marks    []mark
	From, To time.Time
}

// overTime returns the charts over time. Those of the runs are missing if they would cover too short a time, or
// several runs with long pauses between them.
func overTime(r *history.Report) (all []curves) {
	if c := r.Curves; len(c.Points) >= 4 && ranFor(r) >= time.Duration(len(c.Points))*time.Duration(c.Width)/2 {
		all = append(all, newCurves("Over time", c))
	}
	for i, c := range r.Archive {
		if len(c.Points) > 1 {
			all = append(all, newCurves([]string{"The last day, by the minute", "The last year, by the day (UTC)"}[i], c))
		}
	}
	return all
}

func newCurves(title string, c series.Curves) curves {
	each, span := perPeriod(time.Duration(c.Width)), time.Duration(len(c.Points))*time.Duration(c.Width)
	var points [][]float64
	for _, p := range c.Points {
		points = append(points, p[series.Ended:])
	}
	out := curves{Title: title, From: c.Start, To: c.Start.Add(span), List: charts([]figure{
		{"Tasks ended " + each, "ok", number}, {"Failed tasks " + each, "fail", number}, {"Running", "run", number}, {"Read and waiting", "off", number},
		{"Memory in use", "off", func(n float64) string { return task.Size(int64(n)) }}, {"Processes that run or wait to", "off", number},
	}, points)}
	layout := time.TimeOnly
	if span >= 48*time.Hour {
		layout = time.DateOnly
	}
	for x := 0; x <= 100; x += 25 {
		out.Marks = append(out.Marks, mark{c.Start.Add(span / 100 * time.Duration(x)).Local().Format(layout), float64(x)})
	}
	return out
}

// perPeriod says that a figure counts tasks in each period.
func perPeriod(width time.Duration) string {
	switch width {
	case time.Second:
		return "per second"
	case time.Minute:
		return "per minute"
	case 24 * time.Hour:
		return "per day"
	}
	return "per " + task.Brief(width)
}

// ranFor returns how long the runs took in all.
func ranFor(r *history.Report) (all time.Duration) {
	for _, run := range r.Runs {
		all += max(0, run.End.Sub(run.Start))
	}
	return all
}

// percent returns d in percent of most.
func percent(d, most task.Seconds) float64 { return 100 * float64(d) / float64(max(1, most)) }
