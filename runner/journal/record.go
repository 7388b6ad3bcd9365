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
	b = task.AppendInt(b, "seq", int64(a.Task.ID))
	b = task.AppendInt(b, "attempt", int64(a.Number))
	b = task.AppendInt(b, "worker", int64(a.Slot.ID))
	b = task.AppendTime(b, "at", now)
	b = task.AppendText(b, "command", task.Shorten(a.Task.CommandLine(a.Argv()), commandLen))
	return seal(b, from)
}

// appendResult appends a line about how an attempt ended: evEnded or evAttempt,
// with what more adds.
func appendResult(b []byte, event string, t *task.Task, r *task.Result, more func([]byte) []byte) []byte {
	from := len(b)
	b = beginTask(b, event, t.Identity)
	b = r.AppendFacts(b)
	b = task.AppendInt(b, "seq", int64(t.ID))
	if r.Err != nil {
		b = task.AppendText(b, "error", task.Shorten(r.Err.Error(), 1000))
	}
	b = more(b)
	b = task.AppendText(b, "command", task.Shorten(t.CommandLine(argvOf(t, r)), commandLen))
	return seal(b, from)
}

func argvOf(t *task.Task, r *task.Result) []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	return t.Argv
}

func appendExtent(b []byte, name string, p extent) []byte {
	if p.n == 0 {
		return b
	}
	b = strconv.AppendInt(append(task.AppendName(b, name), '['), p.off, 10)
	b = strconv.AppendInt(append(b, ','), p.n, 10)
	b = strconv.AppendUint(append(b, ','), uint64(p.sum), 10)
	return append(b, ']')
}

// Output says what becomes of results beside the journal.
type Output struct {
	Plan task.Plan
	Logs bool // a joblog or a results tree keeps them, through Journal.Logs
	Null bool // stdout may be nobody's: that it has a result is not noted
}

// shownWithEnd says whether a result has been shown when its task ends.
func (o *Output) shownWithEnd() bool { return o.Plan.Streams() && !o.Plan.Order && !o.Null }

// append adds to the line about the end of a task what becomes of its output.
func (o *Output) append(b []byte) []byte {
	switch {
	case o.Plan.Keeps():
	case o.Plan.Streams():
		b = task.AppendTrue(b, "streamed")
	default:
		b = task.AppendTrue(b, "dropped")
	}
	switch {
	case !o.shownWithEnd():
	case o.Logs:
		b = task.AppendTrue(b, evShown)
	default:
		b = task.AppendTrue(b, evReleased)
	}
	return b
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
	Stdout   extent    `json:"stdout"`
	Stderr   extent    `json:"stderr"`
	Attempts extent    `json:"attempts"`
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
func (p *extent) UnmarshalJSON(b []byte) error {
	var ok bool
	if *p, ok = extentOf(bytes.Trim(b, "[]")); !ok {
		return fmt.Errorf("no extent of an output: %s", b)
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
		MaxRSS: r.MaxRSS, Leaked: r.Leaked, Argv: t.ArgvOn(r.Worker),
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
