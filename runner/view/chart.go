package view

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"crew/runner/history"
	"crew/runner/task"
)

// The charts are SVG of numbers alone. Those that are as wide as the page have their
// places in percent, so that they need no script and no scaling.

// outcome is how many tasks ended in a way.
type outcome struct {
	Name, Kind string
	N          int64
	Left, Wide float64 // in percent of the bar
}

// outcomes returns those that there are, the failures last.
func outcomes(r *history.Report) (all []outcome) {
	sum := int64(0)
	for _, n := range r.Outcomes {
		sum += n
	}
	left := 0.0
	for _, failed := range []bool{false, true} {
		for o, n := range r.Outcomes {
			if o := task.Outcome(o); n > 0 && o.Failed() == failed {
				wide := 100 * float64(n) / float64(sum)
				all = append(all, outcome{o.String(), kind(o), n, left, wide})
				left += wide
			}
		}
	}
	return all
}

// bar is one of a histogram. Its places are in percent of the width, and pixels from the top.
type bar struct {
	From, To         string
	Tasks, Failed    int64
	X, Wide          float64
	Y, High          float64
	FailedY, FailedH float64
	Label            bool
}

const barHeight = 140 // pixels

func histogram(bins []history.Bin) (all []bar) {
	most := int64(1)
	for _, b := range bins {
		most = max(most, b.Tasks)
	}
	high := func(n int64) float64 {
		if n == 0 {
			return 0
		}
		return max(1.5, math.Round(10*barHeight*float64(n)/float64(most))/10)
	}
	step := 100 / float64(len(bins))
	every := (len(bins) + 5) / 6
	for i, b := range bins {
		x := bar{
			From: span(b.From), Tasks: b.Tasks, Failed: b.Failed, X: step * float64(i), Wide: step * 0.86,
			High: high(b.Tasks), FailedH: high(b.Failed), Label: i%every == 0,
		}
		if i+1 < len(bins) {
			x.To = span(bins[i+1].From)
		}
		x.Y, x.FailedY = barHeight-x.High, barHeight-x.FailedH
		all = append(all, x)
	}
	return all
}

const sparkWidth, sparkHeight = 96, 24

// spark returns a small line of figures over the runs, those that are negative left out,
// with a dot at the last one. label is its text alternative.
func spark(class, label string, values []float64) template.HTML {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var points []string
	x, y := 0.0, 0.0
	for i, v := range values {
		if v < 0 {
			continue
		}
		x = 3 + float64(sparkWidth-6)*float64(i)/float64(max(1, len(values)-1))
		y = sparkHeight - 3.0
		if most > 0 {
			y -= (sparkHeight - 6) * v / most
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	if points == nil {
		return ""
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers, and the label is escaped
		`<svg class="spark %s" width="%d" height="%d" role="img" aria-label="%s"><polyline points="%s"/><circle cx="%.1f" cy="%.1f" r="2.5"/></svg>`,
		class, sparkWidth, sparkHeight, template.HTMLEscapeString(label), strings.Join(points, " "), x, y))
}

// sparks returns how the mean and the failures of a group went over the runs.
func sparks(runs []history.Figures) [2]template.HTML {
	var means, failed []float64
	words := [2][]string{}
	for _, f := range runs {
		m, n := -1.0, -1.0
		if f.Tasks > 0 {
			m, n = f.Mean.Seconds(), float64(f.Failed)
			words[0], words[1] = append(words[0], span(f.Mean)), append(words[1], fmt.Sprint(f.Failed))
		}
		means, failed = append(means, m), append(failed, n)
	}
	last := func(w []string) string { return strings.Join(w[max(0, len(w)-12):], ", ") }
	return [2]template.HTML{spark("mean", "mean: "+last(words[0]), means), spark("failed", "failures: "+last(words[1]), failed)}
}

// work says how much time the tasks took for each second of the runs.
func work(r *history.Report) string {
	wall := time.Duration(0)
	for _, run := range r.Runs {
		wall += max(0, run.End.Sub(run.Start))
	}
	if wall == 0 || r.Total.Time == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f at once", r.Total.Time.Seconds()/wall.Seconds())
}

// percent returns which part of the longest time another one is.
func percent(d, most task.Seconds) float64 { return 100 * float64(d) / float64(max(1, most)) }
