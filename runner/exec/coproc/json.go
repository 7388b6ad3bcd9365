package coproc

import (
	"encoding/json"
	"fmt"
	"slices"

	"crew/runner/decide/task"
)

// reply is a JSON object written by a worker.
type reply struct {
	ID       *uint64         `json:"id"`
	Exit     *int            `json:"exit"`
	Stdout   task.Bytes      `json:"stdout"`
	Stderr   task.Bytes      `json:"stderr"`
	Progress json.RawMessage `json:"progress"`
}

// parseReply parses a reply. If it is invalid, fault says why.
func parseReply(line []byte) (r reply, fault string) {
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		return r, err.Error()
	case r.ID == nil:
		return r, `it has no "id"`
	case r.Exit == nil && r.Progress == nil:
		return r, `it has no "exit"`
	case r.Exit != nil && (*r.Exit < 0 || *r.Exit > 255):
		return r, `its "exit" is not an exit status`
	}
	return r, ""
}

// takeObject handles an object of the JSON protocol. When the worker wrote it, it had read at most
// read bytes.
func (w *worker) takeObject(p []byte, read int64) {
	o, fault := parseReply(p)
	if fault != "" {
		w.takeGarbage(p, fault, read)
		return
	}
	switch at := slices.IndexFunc(w.attempts[:w.encoded], func(f *openAttempt) bool { return f.record() == *o.ID }); {
	case at < 0 && o.Exit == nil: // progress of a record that has just ended
	case at < 0:
		w.takeGarbage(p, fmt.Sprintf("record %d is not waiting for an answer", *o.ID), read)
	case o.Exit == nil:
		w.attempts[at].since = w.now
	default:
		w.endWithReply(at, &o)
	}
}

// endWithReply ends the attempt at index at with its answer.
func (w *worker) endWithReply(at int, o *reply) {
	f := w.attempts[at]
	if w.begun() == 1 {
		w.flushStderr()
	}
	if len(o.Stderr) > 0 {
		w.addStderr(f, []byte(o.Stderr))
	}
	if len(o.Stdout) > 0 {
		_, _ = w.openOutput(f).Out.Write([]byte(o.Stdout))
	}
	if w.recordAnswered(at, true); *o.Exit != 0 && f.Outcome == task.OK {
		f.Outcome, f.Code = task.Exit, *o.Exit
	}
}

// takeGarbage handles a line that is not a valid answer. It does not blame a record that the worker has not
// read.
func (w *worker) takeGarbage(p []byte, fault string, read int64) {
	if !w.owesAnswer(read) {
		w.takeUnexpectedLine(p)
		return
	}
	w.badAnswer(w.excerpt(p) + ": " + fault)
}
