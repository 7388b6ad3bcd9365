package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"crew/runner/task"
)

// commandLen is how much of a command stands in a record, for people: what a
// task is, its identity says.
const commandLen = 120

func appendStarted(b []byte, a task.Attempt, now time.Time) []byte {
	from := len(b)
	b = beginTask(b, evStarted, a.Task.Identity)
	b = appendInt(b, "seq", int64(a.Task.ID))
	b = appendInt(b, "attempt", int64(a.Number))
	b = appendInt(b, "worker", int64(a.Worker))
	b = appendTime(b, "at", now)
	b = appendText(b, "command", task.Shorten(a.Task.CommandLine(a.Argv()), commandLen))
	return seal(b, from)
}

// appendResult appends a line about how an attempt ended: evEnded with what
// more adds, or evAttempt.
func appendResult(b []byte, event string, t *task.Task, r *task.Result, more func([]byte) []byte) []byte {
	from := len(b)
	b = beginTask(b, event, t.Identity)
	b = append(append(append(b, `,"outcome":"`...), r.Outcome.String()...), '"')
	b = appendSeconds(b, "duration", r.Duration())
	b = appendInt(b, "seq", int64(t.ID))
	b = appendCount(b, "attempt", int64(r.Attempt))
	b = appendCount(b, "worker", int64(r.Worker))
	b = appendCount(b, "pid", int64(r.PID))
	if !r.Start.IsZero() {
		b = appendTime(b, "start", r.Start)
	}
	b = appendCount(b, "exit", int64(r.Code))
	b = appendCount(b, "signal", int64(r.Signal))
	b = appendSeconds(b, "user", r.User)
	b = appendSeconds(b, "system", r.System)
	b = appendCount(b, "maxrss", r.MaxRSS)
	if r.Leaked {
		b = append(b, `,"leaked":true`...)
	}
	if r.Err != nil {
		b = appendText(b, "error", task.Shorten(r.Err.Error(), 1000))
	}
	if more != nil {
		b = more(b)
	}
	b = appendText(b, "command", task.Shorten(t.CommandLine(argvOf(t, r)), commandLen))
	return seal(b, from)
}

func argvOf(t *task.Task, r *task.Result) []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	return t.Argv
}

func appendPlace(b []byte, name string, p place) []byte {
	if p.n == 0 {
		return b
	}
	b = strconv.AppendInt(append(appendName(b, name), '['), p.off, 10)
	b = strconv.AppendInt(append(b, ','), p.n, 10)
	b = strconv.AppendUint(append(b, ','), uint64(p.sum), 10)
	return append(b, ']')
}

// record is a line of a journal as it is read back.
type record struct {
	Event string `json:"event"`

	// of the first line

	Version int    `json:"version"`
	Command string `json:"command"` // also of a task
	Sum     string `json:"sum"`
	Dir     string `json:"dir"`
	Output  string `json:"output"`

	// of a task

	Task     string    `json:"task"`
	Outcome  string    `json:"outcome"`
	Duration float64   `json:"duration"`
	Attempt  int       `json:"attempt"`
	Worker   int       `json:"worker"`
	PID      int       `json:"pid"`
	Start    time.Time `json:"start"`
	Exit     int       `json:"exit"`
	Signal   int       `json:"signal"`
	User     float64   `json:"user"`
	System   float64   `json:"system"`
	MaxRSS   int64     `json:"maxrss"`
	Leaked   bool      `json:"leaked"`
	Error    string    `json:"error"`
	Stdout   place     `json:"stdout"`
	Stderr   place     `json:"stderr"`
	Attempts place     `json:"attempts"`
	Streamed bool      `json:"streamed"` // outputs went past crew and are not here
	Dropped  bool      `json:"dropped"`  // outputs went nowhere

	At time.Time `json:"at"`
}

// parse reads a line's body.
func parse(body []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(append(body[:len(body):len(body)], '}'), r); err != nil {
		return nil, err
	}
	return r, nil
}

// UnmarshalJSON reads [offset, length, sum].
func (p *place) UnmarshalJSON(b []byte) error {
	var ok bool
	if *p, ok = placeOf(bytes.Trim(b, "[]")); !ok {
		return fmt.Errorf("no place of an output: %s", b)
	}
	return nil
}

// result is the recorded result of t, with its outputs.
func (r *record) result(t *task.Task, o *outputs) (*task.Result, error) {
	if r.Event != evEnded {
		return nil, errDamagedRecord
	}
	res, err := r.facts(t)
	if err != nil {
		return nil, err
	}
	if res.Stdout, err = o.open(r.Stdout); err != nil {
		return nil, err
	}
	if res.Stderr, err = o.open(r.Stderr); err != nil {
		return nil, err
	}
	res.Before, err = o.openAttempts(t, r.Attempts)
	return res, err
}

var errDamagedRecord = errors.New("its record is damaged")

// facts is the recorded result of t without its outputs.
func (r *record) facts(t *task.Task) (*task.Result, error) {
	outcome, ok := outcomeOf([]byte(r.Outcome))
	if !ok {
		return nil, errDamagedRecord
	}
	res := &task.Result{
		Task: t, Attempt: r.Attempt, Worker: r.Worker, PID: r.PID, Outcome: outcome, Code: r.Exit, Signal: r.Signal,
		Start: r.Start, End: r.Start.Add(seconds(r.Duration)), User: seconds(r.User), System: seconds(r.System),
		MaxRSS: r.MaxRSS, Leaked: r.Leaked, Argv: task.Attempt{Task: t, Worker: r.Worker}.Argv(),
	}
	if r.Error != "" {
		res.Err = errors.New(r.Error)
	}
	return res, nil
}

func seconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }

// outcomeOf is the outcome of that name, where a task that ended so is done.
func outcomeOf(name []byte) (task.Outcome, bool) {
	for o := task.OK; o < task.Outcomes; o++ {
		if o.String() == string(name) {
			return o, o == task.OK || o.Failed()
		}
	}
	return 0, false
}
