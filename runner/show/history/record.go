package history

import (
	"encoding/json"
	"math"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// record is an object of any of the JSON formats: --json, crew ctl watch --json or crew state --json.
type record struct {
	Line
	Stdout   output    `json:"stdout"`
	Stderr   output    `json:"stderr"`
	Attempts []*record `json:"attempts"` // failed attempts before the last

	// watch only

	V     int            `json:"v"`
	Hello *control.Hello `json:"hello"`
	End   *struct {
		At       time.Time              `json:"at"`
		Outcomes map[task.Outcome]int64 `json:"outcomes"`
	} `json:"run"` // the run ended
	Stream string `json:"stream"` // of Data: stdout or stderr
	Data   []byte `json:"data"`

	// journals only

	Outputs  int64  `json:"outputs"` // number of the file of outputs
	ID       string `json:"id"`
	Retried  bool   `json:"retried"`  // another attempt follows
	Streamed bool   `json:"streamed"` // the outputs are not kept
	Dropped  bool   `json:"dropped"`  // the outputs are not kept
	Left     int    `json:"left"`     // closed: tasks that were cancelled or did not run
	Unread   bool   `json:"unread"`   // closed: the input was not read to its end
	Made     string `json:"made"`     // set if the task may have written its output to a file
}

// output is an output of an attempt.
type output struct {
	end []byte         // its last bytes; nil if unknown
	at  journal.Extent // journals: its place in the file of outputs
}

// tailBytes is how many of the last bytes of an output are kept.
const tailBytes = 8 << 10

// Tails are the ends of the stdout and stderr of an attempt, or nil if unknown. Among the lines of crew ctl watch
// --json, they come just before the line about its end.
type Tails [2][]byte

// Add appends to an end. If data is empty, the output is known to be empty.
func (t *Tails) Add(stream string, data []byte) {
	end := &t[0]
	if stream == "stderr" {
		end = &t[1]
	}
	all := append(*end, data...)
	*end = append([]byte{}, all[max(0, len(all)-tailBytes):]...)
}

// Shown returns the output to show of a failed attempt: stderr or, if that is blank, stdout.
func (t Tails) Shown() []byte {
	if len(task.LastLines(t[1], 1)) > 0 || len(t[0]) == 0 {
		return t[1]
	}
	return t[0]
}

// UnmarshalJSON reads an output or, if the value is an array, its extent.
func (o *output) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &o.at)
	}
	var s task.Bytes
	err := s.UnmarshalJSON(text)
	o.end = []byte(s[max(0, len(s)-tailBytes):])
	return err
}

// maxSeconds is the latest valid time, in seconds since 1970: in 2262 the number of nanoseconds no
// longer fits into 64 bits.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// isValid reports whether the times and durations of r are valid.
func (r *record) isValid() bool {
	for _, t := range [...]time.Time{r.At, r.Start} {
		if !t.IsZero() && (t.Unix() < 0 || t.Unix() > maxSeconds) {
			return false
		}
	}
	for _, a := range r.Attempts {
		if a == nil || !a.isValid() {
			return false
		}
	}
	return min(r.Duration, r.User, r.System) >= 0
}

// line returns the record as a line with the given event name.
func (r *record) line(event string) *Line {
	if r.Name = event; r.At.IsZero() && !r.Start.IsZero() {
		r.At = r.Start.Add(time.Duration(r.Duration))
	}
	if r.Outcome.Failed() {
		r.Output = Tails{r.Stdout.end, r.Stderr.end}.Shown()
	}
	return &r.Line
}

// earlier returns the line of a, an attempt before the last.
func (r *record) earlier(a *record) *Line {
	a.Task, a.Key, a.Command = r.Task, r.Key, r.Command
	return a.line("retried")
}
