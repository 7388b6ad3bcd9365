package view

import (
	"fmt"
	"io"
	"time"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// Listed is a run in the list of runs.
type Listed struct {
	control.Hello
	Status *control.Status // the latest; nil if there is none
	Over   time.Time       // when the run ended; zero if it has not
}

// Index writes the page that lists runs. Each run links to "run/PID/".
func Index(w io.Writer, runs []Listed) error {
	return pages.ExecuteTemplate(w, "index.html", struct {
		frame
		Runs []Listed
	}{newFrame("crew runs", true, "theme.js", "index.js"), runs})
}

// Ran returns how long the run has run.
func (l Listed) Ran() string {
	switch {
	case !l.Over.IsZero():
		return task.Brief(l.Over.Sub(l.Since))
	case l.Status != nil:
		return task.Brief(time.Duration(l.Status.Elapsed))
	}
	return task.Brief(time.Since(l.Since))
}

// Until says when the run ended or is expected to end, or "" if that is unknown.
func (l Listed) Until() string {
	switch {
	case !l.Over.IsZero():
		return "until " + l.Over.Local().Format(time.TimeOnly)
	case l.Status != nil && l.Status.ETA != nil:
		left := time.Duration(*l.Status.ETA)
		return fmt.Sprintf("about %s left, until %s", task.Brief(left), l.Status.At.Add(left).Local().Format("15:04"))
	}
	return ""
}

// Bar returns the segments of the progress bar, or nil if the number of tasks is unknown.
func (l Listed) Bar() []outcome {
	ended := l.Done + l.Dropped
	if l.Total == nil || *l.Total == 0 {
		return nil
	}
	return segments([]outcome{
		{Kind: "ok", N: l.Done - l.Failed}, {Kind: "fail", N: l.Failed}, {Kind: "off", N: l.Dropped},
		{Kind: "rest", N: max(0, *l.Total-ended)},
	})
}

// Waits returns how many tasks wait. If the total is known, that includes tasks that are not read yet.
func (l Listed) Waits() int64 {
	switch {
	case !l.Over.IsZero():
		return 0
	case l.Total == nil:
		return l.Waiting
	}
	return max(l.Waiting, *l.Total-l.Done-l.Dropped-l.Running)
}
