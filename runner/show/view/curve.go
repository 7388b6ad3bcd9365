package view

import (
	"fmt"
	"math"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// curve is a chart of one figure over time. Its coordinates are periods, and the figure downwards.
type curve struct {
	Name, Unit string
	Kind       string  // CSS class
	Most       float64 // at the top of the chart
	Points     string  // of a polygon
}

// curves are charts over the same time.
type curves struct {
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

// overTime returns the charts of a report, or nil if they would cover too short a time, or several runs
// with long pauses between them.
func overTime(r *history.Report) *curves {
	c, ran := r.Curves, time.Duration(0)
	for _, run := range r.Runs {
		ran += max(0, run.End.Sub(run.Start))
	}
	n := len(c.Points)
	span := time.Duration(n) * c.Width
	if n < 4 || ran < span/2 {
		return nil
	}
	out := &curves{Width: n, From: c.Start, To: c.Start.Add(span)}
	out.add("Tasks ended", "ok", c, perTime, func(p history.Point) float64 { return float64(p.Ended) })
	out.add("Failed tasks", "fail", c, perTime, func(p history.Point) float64 { return float64(p.Failed) })
	out.add("Running", "run", c, nil, func(p history.Point) float64 { return p.Running })
	out.add("Waiting", "off", c, nil, func(p history.Point) float64 { return p.Waiting })
	layout := time.TimeOnly
	if span >= 48*time.Hour {
		layout = time.DateOnly
	}
	for x := 0; x <= 100; x += 25 {
		out.Marks = append(out.Marks, moment{c.Start.Add(span / 100 * time.Duration(x)).Local().Format(layout), x})
	}
	return out
}

// add adds the chart of a figure, unless that is always 0. scale, if not nil, returns the unit for the
// largest value in a period, and the factor to convert values to it.
func (cs *curves) add(name, kind string, c history.Curves, scale func(most float64, width time.Duration) (string, float64), of func(history.Point) float64) {
	most := 0.0
	for _, p := range c.Points {
		most = max(most, of(p))
	}
	if most == 0 {
		return
	}
	unit, factor := "", 1.0
	if scale != nil {
		unit, factor = scale(most, c.Width)
	}
	var b strings.Builder
	for i, p := range c.Points { // a step for each period
		v := 0 - of(p)*factor
		fmt.Fprintf(&b, "%d,%.4g %d,%.4g ", i, v, i+1, v)
	}
	cs.List = append(cs.List, curve{name, unit, kind, most * factor, fmt.Sprintf("0,0 %s%d,0", b.String(), len(c.Points))})
}

// perTime returns the shortest of a second, a minute, an hour and a day in which the largest number of
// ends is at least 1.
func perTime(most float64, width time.Duration) (unit string, factor float64) {
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"per second", time.Second}, {"per minute", time.Minute}, {"per hour", time.Hour}, {"per day", 24 * time.Hour}} {
		unit, factor = u.name, float64(u.d)/float64(width)
		if most*factor >= 1 {
			break
		}
	}
	return unit, factor
}

// Top returns the largest value, as people read it.
func (c curve) Top() string {
	if c.Most >= 100 {
		return count(int64(math.Round(c.Most)))
	}
	return fmt.Sprintf("%.3g", c.Most)
}

// Span says which time the charts cover.
func (cs *curves) Span() string {
	return task.Moment(cs.From) + " to " + task.Moment(cs.To)
}
