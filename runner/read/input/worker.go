package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"crew/runner/decide/task"
)

// Worker returns a task with the command of the persistent workers alone.
func (t *Tasks) Worker() *task.Task {
	w := t.worker
	w.Protocol = t.cfg.Protocol
	return &w
}

// send makes tk the task of a persistent worker that takes the record. Tasks share the
// worker's command.
func (t *Tasks) send(tk *task.Task, rec *Record) {
	w := &t.worker
	tk.Protocol, tk.Argv, tk.Exec, tk.Shell, tk.Err = t.cfg.Protocol, w.Argv, w.Exec, w.Shell, w.Err
	tk.Marks = append(tk.Marks, w.Marks...)
	switch tk.Protocol {
	case task.FilterProtocol: // it has a block
		return
	case task.JSONProtocol:
		if tk.Stdin == nil {
			tk.Stdin = t.appendMembers(make([]byte, 0, 64+2*len(rec.Text)), tk, rec)
		} else if bytes.IndexByte(tk.Stdin, '\n') >= 0 { // another machine has made it
			tk.Err = errors.New("what a worker gets of a record holds a newline")
		}
		return
	}
	text := rec.text()
	// There may be a million a second. Nobody changes the record, so share its memory.
	tk.Stdin = unsafe.Slice(unsafe.StringData(text), len(text))
	end := byte('\n')
	if tk.Protocol == task.NULProtocol {
		end = 0
	}
	if strings.IndexByte(text, end) >= 0 {
		tk.Err = fmt.Errorf("the record holds %q, which ends a record for the worker: use --worker-protocol json", end)
	}
}

// appendMembers appends what an object for a worker says of a record: its columns, and
// those with a name by name or the members of its object.
func (t *Tasks) appendMembers(b []byte, tk *task.Task, rec *Record) []byte {
	b = task.AppendColumns(append(b, `"args":`...), rec.Columns)
	b = append(b, `,"fields":`...)
	if tk.Object != "" {
		return append(b, strings.ReplaceAll(strings.TrimSpace(tk.Object), "\n", " ")...)
	}
	return task.AppendFields(b, t.r.names, rec.Columns)
}
