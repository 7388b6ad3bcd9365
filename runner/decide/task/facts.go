package task

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// Facts describes an attempt, or a task by its latest attempt, in the form used by --json, the
// journal, crew ctl and the messages of package engine. Each fact that is not zero is a member of an
// object. A missing fact is unknown, is 0, or does not apply.
type Facts struct {
	Task     uint64    `json:"task,omitzero"` // the task's number
	Key      Bytes     `json:"key,omitzero"`
	Command  Bytes     `json:"command,omitzero"` // as a person would type it; may be shortened
	Outcome  Outcome   `json:"outcome,omitzero"`
	Exit     *int      `json:"exit,omitzero"` // nil if the outcome has no exit status
	Signal   int       `json:"signal,omitzero"`
	Error    Bytes     `json:"error,omitzero"`
	Attempt  int       `json:"attempt,omitzero"`
	Worker   int       `json:"worker,omitzero"`
	Host     Bytes     `json:"host,omitzero"`  // the machine, unless it ran on this one
	Units    Holding   `json:"units,omitzero"` // units of named limits that it held
	PID      int       `json:"pid,omitzero"`
	Start    time.Time `json:"start,omitzero"`
	Duration Seconds   `json:"duration,omitzero"` // until now without suspensions of the run, if it runs
	User     Seconds   `json:"user,omitzero"`     // CPU time
	System   Seconds   `json:"system,omitzero"`
	MaxRSS   int64     `json:"maxrss,omitzero"` // bytes
	Leaked   bool      `json:"leaked,omitzero"`
	Cut      int64     `json:"cut,omitzero"` // bytes of output that were kept, if the rest was dropped
}

// maxError is the most bytes of an error in Facts.
const maxError = 1000

// Facts returns the facts of r, except its command. Exit points into r.
func (r *Result) Facts() Facts {
	f := Facts{
		Outcome: r.Outcome, Signal: r.Signal, Attempt: r.Attempt, Worker: r.Worker, Host: Bytes(r.Host), Units: r.Units, PID: r.PID,
		Start: r.Start, Duration: Seconds(r.Duration()), User: Seconds(r.User), System: Seconds(r.System), MaxRSS: r.MaxRSS, Leaked: r.Leaked, Cut: r.Cut,
	}
	if r.Task != nil {
		f.Task, f.Key = r.Task.ID, Bytes(r.Task.Key)
	}
	if r.Outcome.HasCode() {
		f.Exit = &r.Code
	}
	if r.Err != nil {
		f.Error = Bytes(Shorten(r.Err.Error(), maxError))
	}
	return f
}

// Result returns the result of t that has these facts.
func (f *Facts) Result(t *Task) *Result {
	r := &Result{
		Task: t, Outcome: f.Outcome, Signal: f.Signal, Attempt: f.Attempt, Worker: f.Worker, Host: string(f.Host), Units: f.Units, PID: f.PID,
		Start: f.Start, End: f.Start.Add(time.Duration(f.Duration)), User: time.Duration(f.User), System: time.Duration(f.System),
		MaxRSS: f.MaxRSS, Leaked: f.Leaked, Cut: f.Cut,
	}
	if f.Exit != nil && f.Outcome.HasCode() {
		r.Code = *f.Exit
	}
	if f.Error != "" {
		r.Err = errors.New(string(f.Error))
	}
	return r
}

// Append appends the members, in the order of the fields, as encoding/json would write them, each with
// a comma before it.
func (f *Facts) Append(b []byte) []byte {
	number := func(name string, n int64) {
		if n != 0 {
			b = AppendInt(b, name, n)
		}
	}
	text := func(name string, s Bytes) {
		if s != "" {
			b = AppendText(b, name, string(s))
		}
	}
	seconds := func(name string, d Seconds) {
		if d != 0 {
			b = d.append(AppendName(b, name))
		}
	}
	number("task", int64(f.Task))
	text("key", f.Key)
	text("command", f.Command)
	if f.Outcome != 0 {
		b = append(append(append(AppendName(b, "outcome"), '"'), f.Outcome.String()...), '"')
	}
	if f.Exit != nil {
		b = AppendInt(b, "exit", int64(*f.Exit))
	}
	number("signal", int64(f.Signal))
	text("error", f.Error)
	number("attempt", int64(f.Attempt))
	number("worker", int64(f.Worker))
	text("host", f.Host)
	if f.Units != nil {
		b = f.Units.append(AppendName(b, "units"))
	}
	number("pid", int64(f.PID))
	if !f.Start.IsZero() {
		b = AppendTime(b, "start", f.Start)
	}
	seconds("duration", f.Duration)
	seconds("user", f.User)
	seconds("system", f.System)
	number("maxrss", f.MaxRSS)
	if f.Leaked {
		b = AppendTrue(b, "leaked")
	}
	number("cut", f.Cut)
	return b
}

// AppendOpen appends an object with the members and without its closing brace. At least one must be set.
func (f *Facts) AppendOpen(b []byte) []byte {
	open := len(b)
	b = f.Append(b)
	b[open] = '{' // replaces the comma
	return b
}

// Seconds is a duration that JSON represents as a number of seconds, to the nanosecond.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s Seconds) append(b []byte) []byte {
	return strconv.AppendFloat(b, time.Duration(s).Seconds(), 'f', -1, 64)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err == nil {
		*s = Seconds(math.Round(n * 1e9))
	}
	return err
}
