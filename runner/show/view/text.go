package view

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// longest is the number of bytes shown of a command, a key or a name.
const longest = 1000

var funcs = template.FuncMap{
	"show": show, "brief": func(s any) string { return visible(fmt.Sprint(s), 200) }, "lines": lines, "span": span, "took": func(s task.Seconds) string { return span(time.Duration(s)) }, "count": count, "share": share, "size": task.Size, "moment": task.Moment,
	"groups": func(title, name string, g history.Groups) any { return groups{title, name, g} },
	"kind":   kind, "outcomes": outcomes, "histogram": histogram, "leavesOut": isIncomplete, "unknown": unknownOutputs, "known": func(output []byte) bool { return output != nil }, "verdict": verdict,
	"headline": headline, "exitStatus": exitStatus, "trends": trends, "overTime": overTime, "spark": spark, "runsCharts": runsCharts, "lastRuns": lastRuns, "place": place,
	"cpu": func(f history.Figures) string { return span(f.User + f.System) }, "percent": percent, "tasks": tasks,
}

type named[T any] struct {
	Name string
	Of   T
}

// groups is a table of figures by name.
type groups struct {
	Title, Name string
	Of          history.Groups
}

// show returns a text of a task as one printable line, cut to longest.
func show(s any) string { return visible(fmt.Sprint(s), longest) }

func visible(s string, n int) string { return task.Printable(task.Shorten(s, n)) }

// lines returns output as printable lines, without colours.
func lines(b []byte) string {
	text := strings.ReplaceAll(string(task.Uncoloured(b)), "\r\n", "\n")
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = task.Printable(line)
	}
	return strings.Join(all, "\n")
}

// span formats a duration with three digits, or in whole seconds from a minute on. The script has the same
// function.
func span(d time.Duration) string {
	unit := 100 * time.Microsecond
	for unit < 100*time.Millisecond && d+unit/2 >= 1000*unit {
		unit *= 10
	}
	if d = d.Round(unit); d >= time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}

// count formats a number with commas between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// share formats a part of a whole in percent, and "–" if part is 0.
func share(part, whole int64) string {
	if part == 0 {
		return "–"
	}
	return number(100*float64(part)/float64(whole)) + " %"
}

// kind returns the CSS class of an outcome, which sets its colour.
func kind(o task.Outcome) string {
	switch o {
	case 0:
		return "run"
	case task.OK:
		return "ok"
	case task.Timeout:
		return "slow"
	case task.Lost, task.Memory:
		return "lost"
	case task.Cancelled, task.NotRun, task.Skipped:
		return "off"
	}
	return "fail"
}

// verdict says how an attempt ended. It leaves out the host, which place shows.
func verdict(f task.Facts) string {
	f.Host = ""
	return show(f.Verdict())
}

// place says where an attempt ran, or "" if that is unknown.
func place(f task.Facts) string {
	if f.Worker == 0 {
		return show(f.Host)
	}
	return show(f.Place())
}
