package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"crew/runner/history"
	"crew/runner/task"
)

const (
	traceName    = 200     // bytes of the name of an attempt
	traceText    = 1000    // bytes of other texts
	mostWaiting  = 1 << 19 // tasks of which it is known since when they wait
	earlierStart = 24 * time.Hour
	countGap     = time.Millisecond
)

// Trace writes lines in the Trace Event Format, which Perfetto and chrome://tracing read, as
// they come. A host is a process, and a worker is a thread. Attempts of a thread do not
// overlap: if they would, or if the worker is unknown, they get a row that is free. It is
// not safe for concurrent use.
type Trace struct {
	w     *bufio.Writer
	err   error // the first one of a write
	any   bool  // an event has been written
	base  time.Time
	last  time.Time // when something happened
	lanes lanes
	now   atOnce
}

// atOnce is what is so at the moment.
type atOnce struct {
	running map[uint64]*history.Line // by task
	waits   map[uint64]time.Time     // since when
	flows   map[uint64]int           // the arrow from the attempt that failed to the next
	arrows  int                      // so far
	told    bool                     // the source tells what runs
	counted time.Time
	blocked string // why nothing starts
	since   time.Time
}

// event is one of the format.
type event struct {
	Name  string  `json:"name"`
	Cat   string  `json:"cat,omitempty"`
	Ph    string  `json:"ph"`
	TS    micros  `json:"ts"`
	Dur   *micros `json:"dur,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	ID    int     `json:"id,omitempty"`
	BP    string  `json:"bp,omitempty"`
	Scope string  `json:"s,omitempty"`
	Color string  `json:"cname,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// details are what is shown of an attempt that is selected.
type details struct {
	Task    uint64  `json:"task"`
	Attempt int     `json:"attempt"`
	Key     string  `json:"key,omitempty"`
	Command string  `json:"command,omitempty"`
	Exit    *int    `json:"exit,omitempty"`
	Signal  int     `json:"signal,omitempty"`
	Error   string  `json:"error,omitempty"`
	Wait    float64 `json:"wait,omitempty"` // seconds
}

func detailsOf(f *task.Facts, wait task.Seconds) details {
	return details{
		Task: f.Task, Attempt: f.Attempt, Key: tidy(string(f.Key)), Command: tidy(string(f.Command)),
		Exit: f.Exit, Signal: f.Signal, Error: tidy(string(f.Error)), Wait: time.Duration(wait).Seconds(),
	}
}

// counts are what a counter shows.
type counts struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// micros is a time in nanoseconds that is written in microseconds.
type micros time.Duration

// MarshalJSON implements json.Marshaler.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// NewTrace returns a Trace that writes to w.
func NewTrace(w io.Writer) *Trace {
	t := &Trace{w: bufio.NewWriter(w), lanes: lanes{hosts: map[string]int{}, workers: map[worker]*rows{}}}
	t.now = atOnce{running: map[uint64]*history.Line{}, waits: map[uint64]time.Time{}, flows: map[uint64]int{}}
	_, t.err = t.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`)
	return t
}

// Close completes the JSON. Attempts that still run end there. It returns the first error
// of any write.
func (t *Trace) Close() error {
	t.leave()
	_, err := t.w.WriteString("\n]}\n")
	return cmp.Or(t.err, err, t.w.Flush())
}

func (t *Trace) put(e *event) {
	if t.err != nil {
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.err = err
		return
	}
	between := ",\n"
	if !t.any {
		t.any, between = true, "\n"
	}
	_, _ = t.w.WriteString(between)
	_, t.err = t.w.Write(text)
}

// Add adds a line, and keeps nothing of it.
func (t *Trace) Add(l *history.Line) {
	at := cmp.Or(l.At, l.Start.Add(time.Duration(l.Duration)))
	if l.Name == history.Began {
		t.leave()
		if t.base.IsZero() {
			t.base = at
		}
	}
	if at.After(t.last) {
		t.last = at
	}
	switch l.Name {
	case "admitted", "started", "blocked":
		t.begin(at)
		t.now.told = true
	case "retried", "finished":
		if !l.Start.IsZero() && !t.now.told && !t.any {
			t.base = l.Start.Add(-earlierStart) // those that began before it end later
		}
		t.begin(l.Start)
	}
	switch l.Name {
	case "admitted":
		t.wait(l.Task, at)
	case "started":
		t.started(l, at)
	case "retried", "finished":
		t.ended(l, at)
	case "blocked":
		t.blocked(l, at)
	case "draining", "stopping", "notice":
		t.instant(l, at)
	}
}

// begin sets the time zero.
func (t *Trace) begin(at time.Time) {
	if t.base.IsZero() {
		t.base = at
	}
}

// at returns a time of the trace. Perfetto drops events of negative times.
func (t *Trace) at(when time.Time) micros { return micros(max(0, when.Sub(t.base))) }

func (t *Trace) wait(id uint64, at time.Time) {
	if len(t.now.waits) < mostWaiting {
		t.now.waits[id] = at
	}
	t.count(at)
}

func (t *Trace) started(l *history.Line, at time.Time) {
	own := &history.Line{Facts: task.Facts{
		Task: l.Task, Key: cut(l.Key), Command: cut(l.Command), Attempt: l.Attempt, Worker: l.Worker, Host: cut(l.Host),
		Start: cmp.Or(l.Start, at),
	}}
	own.Wait = t.waited(l.Task, own.Start)
	if len(t.now.running) < mostWaiting {
		t.now.running[l.Task] = own
	}
	t.count(at)
}

// waited returns how long a task has waited that starts, or 0 if that is unknown.
func (t *Trace) waited(id uint64, start time.Time) task.Seconds {
	since, known := t.now.waits[id]
	delete(t.now.waits, id)
	if !known {
		return 0
	}
	return task.Seconds(max(0, start.Sub(since)))
}

func cut(s task.Bytes) task.Bytes { return task.Bytes(task.Shorten(string(s), traceText)) }

func (t *Trace) ended(l *history.Line, at time.Time) {
	began, told := t.now.running[l.Task]
	if !told {
		began = &history.Line{Facts: l.Facts}
		began.Wait = t.waited(l.Task, l.Start)
	}
	delete(t.now.running, l.Task)
	end := l.Start.Add(max(0, time.Duration(l.Duration)))
	switch {
	case l.Start.IsZero(): // it never ran
	case t.now.told && !told && !end.After(t.base): // an earlier run made it
	default:
		t.attempt(l, began, end)
	}
	if l.Name == "retried" {
		t.wait(l.Task, at)
	}
	t.count(at)
}

// attempt writes an attempt that ended. began is what was told when it began.
func (t *Trace) attempt(l, began *history.Line, end time.Time) {
	who := l
	if l.Worker == 0 {
		who = began
	}
	color := ""
	if l.Outcome.Failed() {
		color = "terrible"
	}
	pid, tid, from, to := t.place(string(who.Host), who.Worker, t.at(l.Start), t.at(end))
	t.slice(&event{Name: label(l), Cat: l.Outcome.String(), PID: pid, TID: tid, TS: from, Color: color, Args: detailsOf(&l.Facts, began.Wait)}, to)
	t.arrows(l, pid, tid, from, to)
}

// slice writes an event that lasts.
func (t *Trace) slice(e *event, to micros) {
	e.Ph = "X"
	dur := to - e.TS
	e.Dur = &dur
	t.put(e)
}

// arrows writes the end of the arrow from the attempt before, and the beginning of one to
// the next attempt.
func (t *Trace) arrows(l *history.Line, pid, tid int, from, to micros) {
	e := event{Name: "retry", Cat: "retry", PID: pid, TID: tid}
	if id, known := t.now.flows[l.Task]; known && l.Attempt > 1 {
		e.Ph, e.ID, e.BP, e.TS = "f", id, "e", from
		t.put(&e)
	}
	delete(t.now.flows, l.Task)
	if l.Name == "retried" && len(t.now.flows) < mostWaiting {
		t.now.arrows++
		t.now.flows[l.Task] = t.now.arrows
		e.Ph, e.ID, e.BP, e.TS = "s", t.now.arrows, "", max(from, to-1) // inside of the attempt
		t.put(&e)
	}
}

// blocked writes the time in which nothing started, at its end.
func (t *Trace) blocked(l *history.Line, at time.Time) {
	t.unblock(at)
	if b := l.Blocking; b != nil {
		t.now.blocked, t.now.since = tidy(b.Shown), at
	}
}

func (t *Trace) unblock(at time.Time) {
	if !t.now.since.IsZero() && at.After(t.now.since) {
		pid, tid, from, to := t.place("", whyWorker, t.at(t.now.since), t.at(at))
		t.slice(&event{Name: t.now.blocked, Cat: "blocked", PID: pid, TID: tid, TS: from}, to)
	}
	t.now.since = time.Time{}
}

func (t *Trace) instant(l *history.Line, at time.Time) {
	t.begin(at)
	name := l.Name
	if l.Text != "" {
		name += ": " + tidy(l.Text)
	}
	t.put(&event{Name: name, Cat: "run", Ph: "i", Scope: "g", TS: t.at(at), PID: t.host("")})
}

// count writes how many attempts run and how many tasks wait, if it is a while since the
// last time.
func (t *Trace) count(at time.Time) {
	if !t.now.told || at.Sub(t.now.counted) < countGap {
		return
	}
	t.now.counted = at
	t.put(&event{
		Name: "tasks", Ph: "C", TS: t.at(at), PID: t.host(""),
		Args: counts{len(t.now.running), len(t.now.waits)},
	})
}

// leave ends a run. What runs ends when the last thing happened, since nobody knows better.
func (t *Trace) leave() {
	t.unblock(t.last)
	for _, id := range slices.Sorted(maps.Keys(t.now.running)) {
		l := t.now.running[id]
		from, to := t.at(l.Start), t.at(t.last)
		pid, tid, from, to := t.place(string(l.Host), l.Worker, from, max(from, to))
		t.slice(&event{Name: label(l), Cat: "unknown", PID: pid, TID: tid, TS: from, Args: detailsOf(&l.Facts, l.Wait)}, to)
		t.arrows(l, pid, tid, from, to)
	}
	clear(t.now.running)
	clear(t.now.waits)
	t.now.counted = time.Time{}
	t.count(t.last)
}

// label names an attempt.
func label(l *history.Line) string {
	name := task.Printable(task.Shorten(string(l.Command), traceName))
	if name == "" {
		return "task " + strconv.FormatUint(l.Task, 10)
	}
	return task.Shorten(name, traceName)
}

func tidy(s string) string { return task.Printable(task.Shorten(s, traceText)) }
