package coproc

import (
	"encoding/json"
	"fmt"
	"slices"

	"crew/runner/decide/task"
)

// reply is an object that a worker writes.
type reply struct {
	ID       *uint64         `json:"id"`
	Exit     *int            `json:"exit"`
	Stdout   task.Bytes      `json:"stdout"`
	Stderr   task.Bytes      `json:"stderr"`
	Progress json.RawMessage `json:"progress"`
}

// parseReply returns what a worker wrote, or why it cannot be that.
func parseReply(line []byte) (r reply, fault string) {
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		return r, err.Error()
	case r.ID == nil:
		return r, `it has no "id"`
	case r.Exit == nil && r.Progress == nil:
		return r, `it has no "exit"`
	case r.Exit != nil && (*r.Exit < 0 || *r.Exit > 255):
		return r, `its "exit" is no exit status`
	}
	return r, ""
}

// object takes an object of the JSON protocol, written when the worker had read at most
// so many bytes.
func (w *worker) object(p []byte, read int64) {
	o, fault := parseReply(p)
	if fault != "" {
		w.garbage(p, fault, read)
		return
	}
	switch at := slices.IndexFunc(w.flights[:w.placed], func(f *flight) bool { return f.record() == *o.ID }); {
	case at < 0 && o.Exit == nil: // of a record that has just ended
	case at < 0:
		w.garbage(p, fmt.Sprintf("record %d is not to be answered", *o.ID), read)
	case o.Exit == nil:
		w.flights[at].since = w.run
	default:
		w.ends(at, &o)
	}
}

// ends ends the waiting flight at with its answer.
func (w *worker) ends(at int, o *reply) {
	f := w.flights[at]
	if w.begun() == 1 {
		w.flush()
	}
	if len(o.Stderr) > 0 {
		w.addStderr(f, []byte(o.Stderr))
	}
	if len(o.Stdout) > 0 {
		_ = w.open(f).out.Write([]byte(o.Stdout)) // the result has the error
	}
	if w.answered(at, true); *o.Exit != 0 {
		f.Outcome, f.Code = task.Exit, *o.Exit
	}
}

// garbage takes what is no answer. A record that the worker has not read is not to blame.
func (w *worker) garbage(p []byte, fault string, read int64) {
	if !w.owes(read) {
		w.surplus(p)
		return
	}
	w.bad(w.excerpt(p) + ": " + fault)
}
