package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"crew/runner/decide/task"
)

// maxCommand and maxKey are how many bytes of a task's command and key a line shows
// to people. The identity stands for the whole.
const (
	maxCommand = 120
	maxKey     = 250
)

// appendStarted appends the body of the line about the start of an attempt.
func appendStarted(b []byte, a task.Attempt, now time.Time) []byte {
	f := task.Facts{
		Task: a.Task.ID, Command: task.Bytes(a.Task.ShortCommandLine(a.Argv(), maxCommand)),
		Attempt: a.Number, Worker: a.Slot.ID, Host: task.Bytes(a.Slot.Host), Units: a.Units, Start: now,
	}
	return f.Append(beginTask(b, evStarted, a.Task.Identity))
}

// appendResult appends the body of the line about the end of an attempt. event is evEnded
// or evAttempt.
func appendResult(b []byte, event string, t *task.Task, r *task.Result) []byte {
	f := r.Facts()
	f.Task, f.Key = t.ID, task.Bytes(task.Abridge(t.Key, maxKey))
	f.Command = task.Bytes(t.ShortCommandLine(t.ArgvIn(r), maxCommand))
	b = f.Append(beginTask(b, event, t.Identity))
	if t.Asked != nil && t.Asked.Note != "" {
		b = task.AppendText(b, "note", task.Shorten(t.Asked.Note, maxCommand))
	}
	if t.Makes != nil && r.Outcome != task.Cancelled { // a task can be cancelled while it is checked, which sets its stamp
		b = appendStamp(b, t.Makes.Stamp)
	}
	return b
}

// appendAttempts appends a member that lists what is known of the attempts of a task before
// the last, as --json has them. What they wrote is not kept.
func appendAttempts(b []byte, before []*task.Result) []byte {
	if len(before) == 0 {
		return b
	}
	b = append(task.AppendName(b, "attempts"), '[')
	for _, r := range before {
		f := r.Facts()
		f.Task, f.Key = 0, "" // those of the line
		open := len(b)
		b = f.Append(b)
		b[open] = '{' // in place of the comma
		b = append(b, "},"...)
	}
	b[len(b)-1] = ']'
	return b
}

// stampName is the name of the member that holds a stamp: its numbers in hex, as many
// readers of JSON keep only 53 bits of one.
const stampName = "made"

func appendStamp(b []byte, s task.Stamp) []byte {
	return fmt.Appendf(task.AppendName(b, stampName), `"%016x%016x%016x"`, s.Command, s.Inputs, uint64(s.Since))
}

// parseStamp parses the value of such a member. One that makes no sense is zero, which no
// task has.
func parseStamp(v []byte) task.Stamp {
	const digits = 16 // of each number
	var n [3]uint64
	if len(v) != digits*len(n) {
		return task.Stamp{}
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(string(v[digits*i:][:digits]), 16, 64); err != nil {
			return task.Stamp{}
		}
	}
	return task.Stamp{Command: n[0], Inputs: n[1], Since: int64(n[2])}
}

// record is a line as it is read back.
type record struct {
	Event string `json:"event"`
	task.Facts

	// the first line, of which Command is that of the run

	Version int        `json:"version"`
	Sum     string     `json:"sum"`
	Dir     task.Bytes `json:"dir"`
	Queue   int64      `json:"queue"`   // ID of the queue; 0 for a run
	Last    uint64     `json:"last"`    // the highest number that was given in the queue
	Outputs int64      `json:"outputs"` // number of the file of outputs

	// a task of a queue

	Environment []byte `json:"environment"` // of a bare one, see packEnv
	Spec        *spec  `json:"spec"`

	// a run

	At   time.Time `json:"at"`
	Done int       `json:"done"` // tasks that were done before

	Programs task.Bytes `json:"programs"` // see Command

	// the end of an attempt

	Note     task.Bytes   `json:"note"` // of the task
	Stdout   extent       `json:"stdout"`
	Stderr   extent       `json:"stderr"`
	Attempts []task.Facts `json:"attempts"` // before the last
	Streamed bool         `json:"streamed"` // the output was shown but not captured
	Dropped  bool         `json:"dropped"`  // the output was discarded
	Omitted  int          `json:"omitted"`  // attempts before the last that Attempts lacks
}

var errDamagedRecord = errors.New("its record is damaged")

// parse parses the body of a line. On error the record is empty.
func parse(body []byte) (*record, error) {
	r := new(record)
	if json.Unmarshal(append(body[:len(body):len(body)], '}'), r) != nil {
		return new(record), errDamagedRecord
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
	if r.Event != evEnded || !isDone(r.Outcome) {
		return nil, errDamagedRecord
	}
	var err error
	res := earlier(t, &r.Facts)
	if res.Stdout, err = o.verified(r.Stdout); err == nil {
		res.Stderr, err = o.verified(r.Stderr)
	}
	res.Omitted = r.Omitted
	for i := range r.Attempts {
		res.Before = append(res.Before, earlier(t, &r.Attempts[i]))
	}
	return res, err
}

// earlier returns the result of t in an earlier run that has these facts.
func earlier(t *task.Task, f *task.Facts) *task.Result {
	r := f.Result(t)
	r.Argv, r.Earlier = t.ArgvOn(f.Worker, string(f.Host), f.Units), true
	return r
}

// isDone reports whether the task of an evEnded line can have this outcome: that of a queue may
// have been cancelled by a command, or have come after one that failed.
func isDone(o task.Outcome) bool { return finishes(o) || o == task.Cancelled || o == task.NotRun }

// finishes reports whether a task with this outcome is done, so that it does not
// run again when the run is resumed.
func finishes(o task.Outcome) bool { return o.Succeeded() || o.Failed() }
