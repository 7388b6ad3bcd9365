package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"crew/runner/decide/task"
)

// maxCommand and maxKey limit the bytes of a task's command and key in a line. They are only for
// people to read: the identity identifies the task.
const (
	maxCommand = 120
	maxKey     = 250
)

// appendStarted appends the body of a line about the start of an attempt.
func appendStarted(b []byte, a task.Attempt, now time.Time) []byte {
	f := task.Facts{
		Task: a.Task.ID, Command: task.Bytes(a.Task.ShortCommandLine(a.Argv(), maxCommand)),
		Attempt: a.Number, Worker: a.Slot.ID, Host: task.Bytes(a.Slot.Host), Units: a.Units, Start: now,
	}
	return f.Append(beginTaskLine(b, evStarted, a.Task.Identity))
}

// appendResult appends the body of a line about the end of an attempt. event is evEnded or
// evAttempt.
func appendResult(b []byte, event string, t *task.Task, r *task.Result) []byte {
	f := r.Facts()
	f.Task, f.Key = t.ID, task.Bytes(task.ShortenUnique(t.Key, maxKey))
	f.Command = task.Bytes(t.ShortCommandLine(t.ArgvIn(r), maxCommand))
	b = f.Append(beginTaskLine(b, event, t.Identity))
	if t.Asked != nil && t.Asked.Note != "" {
		b = task.AppendText(b, "note", task.Shorten(string(t.Asked.Note), maxCommand))
	}
	if t.Makes != nil && r.Outcome != task.Cancelled { // the stamp may still change if the task was cancelled while it was checked
		b = appendStamp(b, t.Makes.Stamp)
	}
	return b
}

// appendAttempts appends a member that describes the earlier attempts of a task, in the format of
// --json. Their outputs are not kept.
func appendAttempts(b []byte, before []*task.Result) []byte {
	if len(before) == 0 {
		return b
	}
	b = append(task.AppendName(b, "attempts"), '[')
	for _, r := range before {
		f := r.Facts()
		f.Task, f.Key = 0, "" // the line has them
		b = append(f.AppendOpen(b), "},"...)
	}
	b[len(b)-1] = ']'
	return b
}

// stampName names the member that holds a stamp. Its numbers are in hex, because many JSON parsers
// keep only 53 bits of a number.
const stampName = "made"

func appendStamp(b []byte, s task.Stamp) []byte {
	numbers, _ := binary.Append(nil, binary.BigEndian, s) // never fails for a Stamp
	return append(hex.AppendEncode(append(task.AppendName(b, stampName), '"'), numbers), '"')
}

// parseStamp parses the value of a stamp member. An invalid one gives the zero Stamp, which no task
// has.
func parseStamp(v []byte) (s task.Stamp) {
	numbers, _ := hex.AppendDecode(nil, v)
	_, _ = binary.Decode(numbers, binary.BigEndian, &s)
	return s
}

// record is a parsed line.
type record struct {
	Event string `json:"event"`
	task.Facts

	// the first line; here Command is the command of the run

	Version int        `json:"version"`
	Sum     string     `json:"sum"`
	Dir     task.Bytes `json:"dir"`
	Queue   int64      `json:"queue"`   // ID of the queue; 0 if the journal is not a queue's
	Last    uint64     `json:"last"`    // highest task number used in the queue
	Outputs int64      `json:"outputs"` // number of the file of outputs

	// a task of a queue

	Environment []byte `json:"environment"` // of a bare task; see packEnv
	Spec        *spec  `json:"spec"`

	// a run

	At   time.Time `json:"at"`
	Done int       `json:"done"` // tasks that were done before

	Programs task.Bytes `json:"programs"` // see Command.Programs

	// the end of a run

	Left   int  `json:"left"`   // tasks that were cancelled or did not run
	Unread bool `json:"unread"` // the input was not read to its end

	// the end of an attempt

	Note     task.Bytes   `json:"note"` // of the task
	Stdout   extent       `json:"stdout"`
	Stderr   extent       `json:"stderr"`
	Attempts []task.Facts `json:"attempts"` // earlier attempts
	Streamed bool         `json:"streamed"` // the output was shown, but not captured
	Dropped  bool         `json:"dropped"`  // the output was discarded
	Omitted  int          `json:"omitted"`  // number of earlier attempts that are not in Attempts
}

var errDamagedRecord = errors.New("its record is damaged")

// parse parses the body of a line. On error it returns an empty record.
func parse(body []byte) (*record, error) {
	r := new(record)
	if json.Unmarshal(append(body[:len(body):len(body)], '}'), r) != nil {
		return new(record), errDamagedRecord
	}
	return r, nil
}

// UnmarshalJSON parses an extent in the form [offset,length,checksum].
func (p *extent) UnmarshalJSON(b []byte) error {
	var ok bool
	if *p, ok = parseExtent(bytes.Trim(b, "[]")); !ok {
		return fmt.Errorf("not an extent: %s", b)
	}
	return nil
}

// result returns the recorded result of t and its outputs.
func (r *record) result(t *task.Task, o *outputs) (*task.Result, error) {
	if r.Event != evEnded || !isDone(r.Outcome) {
		return nil, errDamagedRecord
	}
	var err error
	res := earlierResult(t, &r.Facts)
	if res.Stdout, err = o.verified(r.Stdout); err == nil {
		res.Stderr, err = o.verified(r.Stderr)
	}
	res.Omitted = r.Omitted
	for i := range r.Attempts {
		res.Before = append(res.Before, earlierResult(t, &r.Attempts[i]))
	}
	return res, err
}

// earlierResult returns the result with these facts that t had in an earlier run.
func earlierResult(t *task.Task, f *task.Facts) *task.Result {
	r := f.Result(t)
	r.Argv, r.Earlier = t.ArgvOn(f.Worker, string(f.Host), f.Units), true
	return r
}

// isDone reports whether an evEnded line can have outcome o. In a queue, a task may also have been
// cancelled by the user, or not run because a task before it failed.
func isDone(o task.Outcome) bool { return finishes(o) || o == task.Cancelled || o == task.NotRun }

// finishes reports whether a task with outcome o is done, so that a resumed run does not run it
// again.
func finishes(o task.Outcome) bool { return o.Succeeded() || o.Failed() }
