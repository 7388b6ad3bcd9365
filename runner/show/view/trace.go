package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

const (
	traceName    = 200            // bytes of the name of an attempt
	earlierStart = 24 * time.Hour // how long before the first end a run without started lines may have begun
	countGap     = time.Millisecond
)

// Trace writes lines, as they come, in the Trace Event Format that Perfetto and chrome://tracing read.
// A host is a process, and a worker is a thread. Attempts of a thread do not overlap: if they would,
// or if the worker is unknown, they get a free row. Trace is not safe for concurrent use.
type Trace struct {
	w        *bufio.Writer // keeps its first error
	between  string        // written before the next event
	fold     *history.Fold
	base     time.Time      // time zero of the trace
	last     time.Time      // of the latest line
	counted  time.Time      // of the latest counter
	hosts    map[string]int // process IDs
	workers  map[history.Lane]*rows
	threads  int  // number of threads so far
	detailed bool // the source records starts
}

// event is an event of the format.
type event struct {
	Name  string  `json:"name"`
	Cat   string  `json:"cat,omitempty"`
	Ph    string  `json:"ph"`
	TS    micros  `json:"ts"`
	Dur   *micros `json:"dur,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	Color string  `json:"cname,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// details are shown for a selected attempt.
type details struct {
	task.Facts
	Wait task.Seconds `json:"wait,omitzero"`
}

// micros is a time in nanoseconds. Its JSON is in microseconds.
type micros time.Duration

// MarshalJSON implements json.Marshaler.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// NewTrace returns a Trace that writes to w. It sets the callbacks of f.
func NewTrace(w io.Writer, f *history.Fold) *Trace {
	t := &Trace{w: bufio.NewWriter(w), between: "\n", fold: f, hosts: map[string]int{}, workers: map[history.Lane]*rows{}}
	f.Attempted, f.Stuck = t.attempt, t.stuck
	_, _ = t.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`)
	return t
}

// Close completes the JSON and returns the first error of any write. Attempts that still run end here.
func (t *Trace) Close() error {
	t.fold.Source("")
	t.count(0)
	_, _ = t.w.WriteString("\n]}\n")
	return t.w.Flush()
}

func (t *Trace) put(e *event) {
	_, _ = t.w.WriteString(t.between)
	t.between = ",\n"
	text, _ := json.Marshal(e) // never fails for an event
	_, _ = t.w.Write(text)
}

// Add adds a line to the trace and to the Fold. It does not keep l or any memory of it.
func (t *Trace) Add(l *history.Line) {
	ended := l.Name == "retried" || l.Name == "finished"
	switch t.detailed = t.detailed || l.Name == "admitted" || l.Name == "started" || l.Name == "blocked"; {
	case ended && !l.Start.IsZero() && !t.detailed && t.between == "\n":
		t.base = l.Start.Add(-earlierStart) // attempts that began earlier may end later
	case t.base.IsZero():
		t.base = l.At
	}
	switch {
	case l.Name == history.Began:
		t.count(0) // a killed run tells no ends
		t.counted, t.last = l.At, l.At
	case l.At.After(t.last) && l.At.Sub(t.counted) >= countGap:
		t.count(t.fold.Running())
	}
	t.fold.Add(l)
	if l.At.After(t.last) {
		t.last = l.At
	}
}

// count writes how many attempts ran after the latest line.
func (t *Trace) count(running int) {
	if t.detailed {
		t.counted = t.last
		t.put(&event{Name: "tasks", Ph: "C", TS: t.at(t.last), PID: t.host(""), Args: map[string]int{"running": running}})
	}
}

// at returns a time of the trace. Perfetto drops events of negative times.
func (t *Trace) at(when time.Time) micros { return micros(max(0, when.Sub(t.base))) }

// attempt writes an attempt. See history.Fold.Attempted.
func (t *Trace) attempt(a *history.Attempt, until int64, l *history.Line) {
	end := time.Unix(0, until)
	if t.detailed && end.Before(t.base) { // it belongs to an earlier run
		return
	}
	color := ""
	if l.Outcome.Failed() {
		color = "terrible"
	}
	pid, tid, from, to := t.place(a.Host, int(a.Worker), t.at(time.Unix(0, a.Start)), t.at(end))
	t.slice(&event{Name: label(l), Cat: l.Outcome.String(), PID: pid, TID: tid, TS: from, Color: color, Args: details{task.Facts{
		Task: l.Task, Attempt: l.Attempt, Key: tidy(l.Key), Command: tidy(l.Command), Exit: l.Exit, Signal: l.Signal, Error: tidy(l.Error),
	}, task.Seconds(max(0, a.Waited))}}, to)
}

// slice writes an event with a duration.
func (t *Trace) slice(e *event, to micros) {
	e.Ph, e.Dur = "X", new(to-e.TS)
	t.put(e)
}

// stuck writes a period in which nothing started.
func (t *Trace) stuck(b *history.Blocked) {
	pid, tid, from, to := t.place("", stallThread, t.at(b.From), t.at(b.To))
	t.slice(&event{Name: show(b.Text), Cat: "blocked", PID: pid, TID: tid, TS: from}, to)
}

// label names an attempt.
func label(l *history.Line) string {
	return cmp.Or(task.Shorten(visible(string(l.Command), traceName), traceName), fmt.Sprint("task ", l.Task))
}

func tidy(s task.Bytes) task.Bytes { return task.Bytes(show(s)) }
