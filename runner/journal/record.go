package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"crew/runner/task"
)

// maxCommand and maxKey are how many bytes of a task's command and key a line shows
// to people. The identity stands for the whole.
const (
	maxCommand = 120
	maxKey     = 250
)

// appendStarted appends the line about the start of an attempt.
func appendStarted(b []byte, a task.Attempt, now time.Time) []byte {
	from := len(b)
	b = beginTask(b, evStarted, a.Task.Identity)
	b = task.AppendInt(b, "seq", int64(a.Task.ID))
	b = task.AppendInt(b, "attempt", int64(a.Number))
	b = task.AppendInt(b, "worker", int64(a.Slot.ID))
	if a.Slot.Host != "" {
		b = task.AppendText(b, "host", a.Slot.Host)
	}
	b = task.AppendTime(b, "at", now)
	b = task.AppendText(b, "command", a.Task.ShortCommandLine(a.Argv(), maxCommand))
	return seal(b, from)
}

// appendResult appends the line about the end of an attempt, with the members that
// more appends. event is evEnded or evAttempt.
func appendResult(b []byte, event string, t *task.Task, r *task.Result, more func([]byte) []byte) []byte {
	from := len(b)
	b = beginTask(b, event, t.Identity)
	b = r.AppendFacts(b)
	b = task.AppendInt(b, "seq", int64(t.ID))
	if r.Err != nil {
		b = task.AppendText(b, "error", task.Shorten(r.Err.Error(), 1000))
	}
	b = more(b)
	if t.Key != "" {
		b = task.AppendText(b, "key", task.Shorten(t.Key, maxKey))
	}
	b = task.AppendText(b, "command", t.ShortCommandLine(t.ArgvIn(r), maxCommand))
	return seal(b, from)
}

// record is a line as it is read back.
type record struct {
	Event string `json:"event"`

	// the first line

	Version int    `json:"version"`
	Command string `json:"command"` // also of a task
	Sum     string `json:"sum"`
	Dir     string `json:"dir"`
	Queue   string `json:"queue"` // ID of the queue; empty for a run
	Last    uint64 `json:"last"`  // the highest number that was given in the queue

	// a task of a queue

	Environment string       `json:"environment"` // checksum
	Spec        *spec        `json:"spec"`
	Env         []task.Bytes `json:"env"` // the environment itself

	// a run, or the start of an attempt

	At time.Time `json:"at"`

	// a run

	Done int `json:"done"` // tasks that were done before

	// an attempt

	Seq uint64 `json:"seq"`

	// the end of an attempt

	Outcome  string    `json:"outcome"`
	Duration float64   `json:"duration"`
	Attempt  int       `json:"attempt"`
	Worker   int       `json:"worker"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Start    time.Time `json:"start"`
	Exit     int       `json:"exit"`
	Signal   int       `json:"signal"`
	User     float64   `json:"user"`
	System   float64   `json:"system"`
	MaxRSS   int64     `json:"maxrss"`
	Leaked   bool      `json:"leaked"`
	Error    string    `json:"error"`
	Key      string    `json:"key"`
	Stdout   extent    `json:"stdout"`
	Stderr   extent    `json:"stderr"`
	Attempts extent    `json:"attempts"`
	Streamed bool      `json:"streamed"` // the output was shown but not captured
	Dropped  bool      `json:"dropped"`  // the output was discarded
	Unkept   bool      `json:"unkept"`   // the output of an attempt before the last was not kept
	Omitted  int       `json:"omitted"`  // attempts before the last that Attempts lacks
}

var errDamagedRecord = errors.New("its record is damaged")

// parse parses the body of a line.
func parse(body []byte) (*record, error) {
	r := new(record)
	if json.Unmarshal(append(body[:len(body):len(body)], '}'), r) != nil {
		return nil, errDamagedRecord
	}
	return r, nil
}

// UnmarshalJSON parses [offset,length,checksum].
func (p *extent) UnmarshalJSON(b []byte) error {
	var ok bool
	if *p, ok = parseExtent(bytes.Trim(b, "[]")); !ok {
		return fmt.Errorf("not an extent: %s", b)
	}
	return nil
}

// result returns the recorded result of t, with its outputs.
func (r *record) result(t *task.Task, o *outputs) (*task.Result, error) {
	if r.Event != evEnded {
		return nil, errDamagedRecord
	}
	res, err := r.facts(t)
	if err != nil {
		return nil, err
	}
	if res.Stdout, err = o.verified(r.Stdout); err == nil {
		res.Stderr, err = o.verified(r.Stderr)
	}
	if err == nil {
		res.Omitted = r.Omitted
		res.Before, err = o.openAttempts(t, r.Attempts)
	}
	return res, err
}

// facts returns the recorded result of t without its outputs.
func (r *record) facts(t *task.Task) (*task.Result, error) {
	outcome, ok := parseOutcome(r.Outcome)
	if !ok {
		return nil, errDamagedRecord
	}
	res := &task.Result{
		Task: t, Attempt: r.Attempt, Worker: r.Worker, Host: r.Host, PID: r.PID, Outcome: outcome, Code: r.Exit, Signal: r.Signal,
		Start: r.Start, End: r.Start.Add(seconds(r.Duration)), User: seconds(r.User), System: seconds(r.System),
		MaxRSS: r.MaxRSS, Leaked: r.Leaked, Argv: t.ArgvOn(r.Worker, r.Host),
	}
	if r.Error != "" {
		res.Err = errors.New(r.Error)
	}
	return res, nil
}

func seconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }

// parseOutcome returns the named outcome. ok reports whether it can be that of a task
// that is done: a command may have cancelled the task of a queue.
func parseOutcome(name string) (o task.Outcome, ok bool) {
	for o := task.OK; o < task.Outcomes; o++ {
		if o.String() == name {
			return o, finishes(o) || o == task.Cancelled
		}
	}
	return 0, false
}

// finishes reports whether a task with this outcome is done, so that it does not
// run again when the run is resumed.
func finishes(o task.Outcome) bool { return o == task.OK || o.Failed() }
