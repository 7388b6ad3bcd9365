package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const (
	// Version is that of the wire format. Requests of another one are refused.
	Version = 2
	maxLine = 8 << 20 // bytes of a request
)

// Reply is one line from the server. A request has one or more, and exactly the last
// one has End. The other members depend on the request, as the comments say.
type Reply struct {
	V   int  `json:"v"`
	End bool `json:"end,omitempty"`

	// watch: what happened, maybe to the task of the facts

	*Event
	task.Facts // Error is of the request at its End: why it was not carried out, or not wholly

	Status int          `json:"status,omitempty"` // of an error: the client's exit status
	Over   bool         `json:"over,omitempty"`   // of an error: the run has ended, and did nothing of what was asked
	Hello  *Hello       `json:"hello,omitempty"`  // hello; watch: at first, without the state
	Run    *Status      `json:"run,omitempty"`    // status; watch: at the end, and with follow at first and again and again
	Wheres []task.Where `json:"wheres,omitempty"` // explain
	Hint   string       `json:"hint,omitempty"`   // explain: how more would be known
	Tasks  []uint64     `json:"tasks,omitempty"`  // add: the new tasks; retry: those that run, under their new numbers; otherwise those for which it was done

	Ended []task.Facts `json:"ended,omitempty"` // add with wait, log with follow: at the end; wait: as they end

	// add with wait, log: output of Task

	Stream string `json:"stream,omitempty"` // stdout or stderr
	Data   []byte `json:"data,omitempty"`   // a piece, which may begin and end inside a character
	Cut    int64  `json:"cut,omitempty"`    // log: how many bytes of the stream came before, and are not kept
}

// Event is one line of watch. Which members an event has follows from its name.
type Event struct {
	// Name is watching (the first one: from here on nothing is missed), admitted,
	// started, retried, finished, input-end, resized, draining, stopping, blocked,
	// continued, notice or lost.
	Name     string         `json:"event"`
	At       time.Time      `json:"at,omitzero"`
	Wait     task.Seconds   `json:"wait,omitempty"`     // retried: until the next attempt; continued: how long the run was suspended
	Workers  int            `json:"workers,omitempty"`  // resized
	Blocking *task.Blocking `json:"blocking,omitempty"` // blocked; missing if something starts again
	Text     string         `json:"text,omitempty"`     // draining, stopping: why; notice
	Count    int64          `json:"count,omitempty"`    // lost: how many events did not fit
}

// Refused is the error of a request that was not carried out. To the server any other error is one
// with the status refused.
type Refused struct {
	Text   string
	Status int  // what the client exits with: refused, malformed or, if it may try again, 75
	Over   bool // the run has ended
}

// The statuses of refused requests.
const (
	statusRefused   = 1
	statusMalformed = 2
)

func (e *Refused) Error() string { return e.Text }

// bad returns the error of a request that no run would carry out.
func badRequest(format string, args ...any) error {
	return &Refused{Text: "bad request: " + fmt.Sprintf(format, args...), Status: statusMalformed}
}

// writeLine writes a request or a reply as a line.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// decode decodes a line. It refuses members that this version does not have.
func decodeRequest(line []byte) (*Request, error) {
	r := &Request{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(r); { // beside an unknown member it reads the others
	case r.V != Version && (err == nil || r.V != 0):
		return nil, badRequest("version %d: this crew speaks version %d", r.V, Version)
	case err != nil:
		return nil, badRequest("%s", strings.TrimPrefix(err.Error(), "json: "))
	case findOp(r.Op) == nil:
		return nil, badRequest("there is no op %q", r.Op)
	}
	return r, nil
}
