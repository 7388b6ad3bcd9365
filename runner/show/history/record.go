package history

import (
	"encoding/json"
	"math"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// record is an object of any of the forms: of --json, of crew ctl watch --json, or of
// crew state --json.
type record struct {
	Line
	Stdout   output    `json:"stdout"`
	Stderr   output    `json:"stderr"`
	Attempts []*record `json:"attempts"` // those that failed before

	// of watch

	V     int            `json:"v"`
	Hello *control.Hello `json:"hello"`
	End   *struct {
		At time.Time `json:"at"`
	} `json:"run"` // the run ended
	Stream string `json:"stream"` // the name of the output of which Data is a piece
	Data   []byte `json:"data"`

	// of a journal

	Outputs  int64  `json:"outputs"` // number of the file of outputs
	ID       string `json:"id"`
	Retried  bool   `json:"retried"`  // another attempt follows
	Streamed bool   `json:"streamed"` // the outputs are not kept
	Dropped  bool   `json:"dropped"`  // the outputs are not kept
	Made     string `json:"made"`     // of a task that may have written to a file
}

// output is an output of an attempt.
type output struct {
	end []byte         // of it
	at  journal.Extent // of a journal: where it is
}

// tailBytes is how much of the end of an output is kept.
const tailBytes = 8 << 10

// UnmarshalJSON reads an output, or where it is.
func (o *output) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &o.at)
	}
	var s task.Bytes
	err := s.UnmarshalJSON(text)
	o.end = []byte(s[max(0, len(s)-tailBytes):])
	return err
}

// maxSeconds is the latest time after 1970 that is taken for one: in 2262. Later ones are
// no number of nanoseconds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// sound reports whether the times of an object can be those of an attempt.
func (r *record) sound() bool {
	for _, t := range [...]time.Time{r.At, r.Start} {
		if !t.IsZero() && (t.Unix() < 0 || t.Unix() > maxSeconds) {
			return false
		}
	}
	for _, a := range r.Attempts {
		if a == nil || !a.sound() {
			return false
		}
	}
	return min(r.Duration, r.User, r.System) >= 0
}

// line returns the line about the end of an attempt.
func (r *record) line(event string) *Line {
	if r.Name = event; r.At.IsZero() && !r.Start.IsZero() {
		r.At = r.Start.Add(time.Duration(r.Duration))
	}
	if r.Outcome.Failed() {
		r.Output = seen(r.Stdout.end, r.Stderr.end)
	}
	return &r.Line
}

// earlier returns the line about an attempt before the last.
func (r *record) earlier(a *record) *Line {
	a.Task, a.Key, a.Command = r.Task, r.Key, r.Command
	return a.line("retried")
}

// seen returns the end of what a failed attempt wrote: on stderr or, if there is nothing to
// see, on stdout.
func seen(stdout, stderr []byte) []byte {
	if len(task.LastLines(stderr, 1)) > 0 || len(stdout) == 0 {
		return stderr
	}
	return stdout
}
