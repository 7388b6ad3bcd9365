package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
)

const (
	// Version is the version of the wire format. Requests of other versions are refused.
	Version = 2
	maxLine = 8 << 20 // bytes of a request
)

// Reply is one line from the server. A request gets one or more replies, and only the last one has End. The
// other members depend on the request, as their comments say.
type Reply struct {
	V   int  `json:"v"`
	End bool `json:"end,omitempty"`

	// watch: what happened, and the task that it happened to, if any

	*Event
	task.Facts // with End, Error says why the request was not carried out completely

	Status int             `json:"status,omitempty"` // with an error: the client's exit status
	Over   bool            `json:"over,omitempty"`   // with an error: the run is over and did nothing that was asked
	Hello  *Hello          `json:"hello,omitempty"`  // hello; watch: in the first reply, without the state
	Run    *Status         `json:"run,omitempty"`    // status; watch: in the last reply; with follow also in the first one, and at intervals
	Wheres []task.Where    `json:"wheres,omitempty"` // explain
	Curves []series.Curves `json:"curves,omitempty"` // curves
	Hint   string          `json:"hint,omitempty"`   // explain: how to learn more
	Tasks  []uint64        `json:"tasks,omitempty"`  // add: the new tasks, and Known; retry: the tasks that run, by their new numbers; otherwise the tasks that changed

	Known []uint64 `json:"known,omitempty"` // add: the tasks of Tasks that are not new

	Ended []task.Facts `json:"ended,omitempty"` // add with wait, log with follow, wait: how a task ended

	// add with wait, log: output of Task. Facts.Cut is how many earlier bytes of the stream were not kept.

	Stream string `json:"stream,omitempty"` // stdout or stderr
	Data   []byte `json:"data,omitempty"`   // a piece, which may start and end inside a character
}

// Event is one line of watch. Its name determines which members it has.
type Event struct {
	// Name is watching (the first event: no later one is missed), admitted, started, retried,
	// finished, input-end, resized, draining, stopping, blocked, continued, notice or lost.
	Name     string         `json:"event"`
	At       time.Time      `json:"at,omitzero"`
	Wait     task.Seconds   `json:"wait,omitempty"`     // retried: until the next attempt; continued: how long the run was suspended
	Workers  int            `json:"workers,omitempty"`  // resized
	Blocking *task.Blocking `json:"blocking,omitempty"` // blocked; missing once tasks start again
	Text     string         `json:"text,omitempty"`     // draining, stopping: why; notice
	Count    int64          `json:"count,omitempty"`    // lost: how many events did not fit
	Flaky    bool           `json:"flaky,omitempty"`    // finished: it failed, perhaps in an earlier run, before it succeeded
}

// Refused is the error of a request that was not carried out. The server treats any other error as one with
// statusRefused.
type Refused struct {
	Text   string
	Status int  // the client's exit status: statusRefused, statusMalformed, or 75 if it may try again
	Over   bool // the run has ended
}

// The statuses of refused requests.
const (
	statusRefused   = 1
	statusMalformed = 2
)

func (e *Refused) Error() string { return e.Text }

// badRequest returns the error of a request that no run would carry out.
func badRequest(format string, args ...any) error {
	return &Refused{Text: "bad request: " + fmt.Sprintf(format, args...), Status: statusMalformed}
}

// writeLine writes a request or a reply as a line.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// decodeRequest decodes a line. It refuses members that this version does not have.
func decodeRequest(line []byte) (*Request, error) {
	r := &Request{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(r); { // Decode sets the other members even if one is unknown
	case r.V != Version && (err == nil || r.V != 0):
		return nil, badRequest("version %d: this crew speaks version %d", r.V, Version)
	case err != nil:
		return nil, badRequest("%s", strings.TrimPrefix(err.Error(), "json: "))
	case ops[r.Op] == nil:
		return nil, badRequest("there is no op %q", r.Op)
	}
	return r, nil
}
