package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
)

const (
	// Version is that of the wire format. Requests of another one are refused.
	Version = 2
	maxLine = 8 << 20 // bytes of a request
)

// Request is the line that a client sends over a connection.
type Request struct {
	V        int         `json:"v"`
	Op       string      `json:"op"`
	Tasks    []uint64    `json:"tasks,omitempty"`
	Key      *task.Bytes `json:"key,omitempty"`
	All      bool        `json:"all,omitempty"`      // cancel, wait: all tasks that have not ended
	N        int         `json:"n,omitempty"`        // resize: the number of workers; explain: the most tasks to list
	Only     string      `json:"only,omitempty"`     // explain: a value of Onlys
	Relative bool        `json:"relative,omitempty"` // resize: N more
	Last     bool        `json:"last,omitempty"`     // move: behind all others, instead of before them
	Rest     bool        `json:"rest,omitempty"`     // drain: run what has been read
	Follow   bool        `json:"follow,omitempty"`   // log: until the task has ended
	Wait     bool        `json:"wait,omitempty"`     // add: until the tasks have ended
	Add      *Addition   `json:"add,omitempty"`
}

// Onlys are the kinds of tasks to which explain can be limited.
var Onlys = [...]string{"waiting", "running", "failed", "ended"}

// Reply is one line from the server. A request has one or more, and exactly the last
// one has End. The other members depend on the request, as the comments say.
type Reply struct {
	V   int  `json:"v"`
	End bool `json:"end,omitempty"`

	// watch: what happened, maybe to the task of the facts

	*Event
	task.Facts // Error is of the request at its End: why it was not carried out, or not wholly

	Status int      `json:"status,omitempty"` // of an error: the client's exit status
	Over   bool     `json:"over,omitempty"`   // of an error: the run has ended, and did nothing of what was asked
	Hello  *Hello   `json:"hello,omitempty"`  // hello
	Run    *Status  `json:"run,omitempty"`    // status; watch: at the end
	Wheres []Where  `json:"wheres,omitempty"` // explain
	Hint   string   `json:"hint,omitempty"`   // explain: how more would be known
	Tasks  []uint64 `json:"tasks,omitempty"`  // add: the new tasks; retry: those that run, under their new numbers; otherwise those for which it was done
	Next   bool     `json:"next,omitempty"`   // add: the run ends, and the next crew serve runs them

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
	Name     string       `json:"event"`
	At       time.Time    `json:"at,omitzero"`
	Wait     task.Seconds `json:"wait,omitempty"`     // retried: until the next attempt; continued: how long the run was suspended
	Workers  int          `json:"workers,omitempty"`  // resized
	Blocking *Blocking    `json:"blocking,omitempty"` // blocked; missing if something starts again
	Text     string       `json:"text,omitempty"`     // draining, stopping: why; notice
	Count    int64        `json:"count,omitempty"`    // lost: how many events did not fit
}

// Refused is the error of a request that was not carried out.
type Refused struct {
	Text   string
	Status int  // what the client exits with: refused, malformed or full
	Over   bool // the run has ended
}

// The statuses of refused requests.
const (
	refused   = 1
	malformed = 2
	full      = 75
)

func (e *Refused) Error() string { return e.Text }

// bad returns the error of a request that no run would carry out.
func bad(format string, args ...any) error {
	return &Refused{Text: "bad request: " + fmt.Sprintf(format, args...), Status: malformed}
}

// decode decodes a line. It refuses whatever the client cannot have learned from the
// description of this version.
func decode(line []byte) (*Request, error) {
	r := &Request{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	err := dec.Decode(r)
	if err != nil {
		var any struct{ V *int }
		kind, isKind := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case !json.Valid(line):
			return nil, bad("not a line of JSON")
		case json.Unmarshal(line, &any) == nil && any.V != nil && *any.V != Version:
			r.V = *any.V
		case isKind && kind.Field == "":
			return nil, bad("not an object")
		case isKind:
			return nil, bad("%q cannot be %s", kind.Field, kind.Value)
		default:
			return nil, bad("%s", strings.Replace(err.Error(), "json: unknown field", "unknown member", 1))
		}
	} else if _, err = dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("something follows the object")
	}
	if r.V != Version {
		return nil, bad("version %d: this crew speaks version %d", r.V, Version)
	}
	o := opOf(r.Op)
	if o == nil {
		return nil, bad("there is no op %q", r.Op)
	}
	return r, checkNames(line, r.Op, strings.Fields(o.takes))
}

// checkNames checks the names of members in valid JSON, which encoding/json compares
// without regard to case and accepts more than once.
func checkNames(line []byte, op string, members []string) error {
	depth, seen := 0, []string(nil)
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '"':
			from := i + 1
			for i++; line[i] != '"'; i++ {
				if line[i] == '\\' {
					i++
				}
			}
			name := string(line[from:min(i, from+100)])
			switch rest := bytes.TrimLeft(line[i+1:], " \t\r\n"); {
			case len(rest) == 0 || rest[0] != ':':
			case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
				return bad("unknown member %q", name)
			case depth == 1 && slices.Contains(seen, name):
				return bad("two members are called %q", name)
			case depth == 1 && name != "v" && name != "op" && !slices.Contains(members, name):
				return bad("%s takes no %q", op, name)
			case depth == 1:
				seen = append(seen, name)
			}
		}
	}
	return nil
}
