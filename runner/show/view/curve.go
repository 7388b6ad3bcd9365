package view

import (
	"fmt"
	"math"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/show/history"
)

// curve is a chart of one figure over time. Its coordinates are periods, and the figure downwards.
type curve struct {
	Name, Unit string
	Kind       string  // CSS class
	Most       float64 // at the top of the chart
	Top        string  // the same, as people read it
	Points     string  // of a polygon
}

// curves are charts over the same time.
type curves struct {
	Title    string
	List     []curve
	Width    int // in periods
	Marks    []moment
	From, To time.Time
}

// moment labels the axis of time at X percent of the width.
type moment struct {
	Text string
	X    int
}

// charted holds the figures that have charts.
var charted = []struct {
	of         series.Figure
	name, kind string
}{
	{series.Ended, "Tasks ended", "ok"}, {series.Failed, "Failed tasks", "fail"}, {series.Running, "Running", "run"},
	{series.Waiting, "Read and waiting", "off"}, {series.Memory, "Memory in use", "off"}, {series.Load, "Processes that run or wait to", "off"},
}

// overTime returns the charts of a report. Those of the runs are missing if they would cover too short a time, or
// several runs with long pauses between them.
func overTime(r *history.Report) (all []curves) {
	c, ran := r.Curves, time.Duration(0)
	for _, run := range r.Runs {
		ran += max(0, run.End.Sub(run.Start))
	}
	if n := len(c.Points); n >= 4 && ran >= time.Duration(n)*time.Duration(c.Width)/2 {
		all = append(all, newCurves("Over time", c))
	}
	for i, c := range r.Archive {
		if len(c.Points) > 1 {
			all = append(all, newCurves([]string{"The last day, by the minute", "The last year, by the day (UTC)"}[i], c))
		}
	}
	return all
}

// newCurves returns the charts of all figures that are not always 0.
func newCurves(title string, c series.Curves) curves {
	span := time.Duration(len(c.Points)) * time.Duration(c.Width)
	out := curves{Title: title, Width: len(c.Points), From: c.Start, To: c.Start.Add(span)}
	for _, chart := range charted {
		most := 0.0
		for _, p := range c.Points {
			most = max(most, p[chart.of])
		}
		if most > 0 {
			one := curve{Name: chart.name, Kind: chart.kind}
			one.draw(c, chart.of, most)
			out.List = append(out.List, one)
		}
	}
	layout := time.TimeOnly
	if span >= 48*time.Hour {
		layout = time.DateOnly
	}
	for x := 0; x <= 100; x += 25 {
		out.Marks = append(out.Marks, moment{c.Start.Add(span / 100 * time.Duration(x)).Local().Format(layout), x})
	}
	return out
}

// draw draws a figure and its scale. most is its largest value.
func (c *curve) draw(all series.Curves, f series.Figure, most float64) {
	factor := 1.0
	switch f {
	case series.Ended, series.Failed:
		c.Unit = perPeriod(time.Duration(all.Width))
	case series.Memory:
		factor = 1.0 / (1 << 20)
	}
	var b strings.Builder
	for i, p := range all.Points { // a step for each period
		v := 0 - p[f]*factor
		fmt.Fprintf(&b, "%d,%.4g %d,%.4g ", i, v, i+1, v)
	}
	c.Most, c.Points = most*factor, fmt.Sprintf("0,0 %s%d,0", b.String(), len(all.Points))
	switch {
	case f == series.Memory:
		c.Top = task.Size(int64(most))
	case c.Most >= 100:
		c.Top = count(int64(math.Round(c.Most)))
	default:
		c.Top = fmt.Sprintf("%.3g", c.Most)
	}
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

// Span says which time the charts cover.
func (cs *curves) Span() string {
	return task.Moment(cs.From) + " to " + task.Moment(cs.To)
}
