package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"crew/runner/decide/task"
)

// Worker returns a task that holds only the command of the persistent workers.
func (t *Tasks) Worker() *task.Task {
	w := t.worker
	w.Protocol = t.cfg.Protocol
	return &w
}

// fillForWorker makes tk a task for a persistent worker, which gets the record. Tasks share the
// worker's command.
func (t *Tasks) fillForWorker(tk *task.Task, rec *Record) {
	w := &t.worker
	tk.Protocol, tk.Argv, tk.Exec, tk.Shell, tk.Err = t.cfg.Protocol, w.Argv, w.Exec, w.Shell, w.Err
	tk.Marks = append(tk.Marks, w.Marks...)
	switch tk.Protocol {
	case task.FilterProtocol: // it reads the block of the task
		return
	case task.JSONProtocol:
		if tk.Stdin == nil {
			tk.Stdin = t.appendMembers(make([]byte, 0, 64+2*len(rec.Text)), tk, rec)
		} else if bytes.IndexByte(tk.Stdin, '\n') >= 0 { // another machine has made the line
			tk.Err = errors.New("the record for a worker holds a newline")
		}
		return
	}
	text := rec.text()
	// There may be a million records a second. Records do not change, so share their memory.
	tk.Stdin = unsafe.Slice(unsafe.StringData(text), len(text))
	end := byte('\n')
	if tk.Protocol == task.NULProtocol {
		end = 0
	}
	if strings.IndexByte(text, end) >= 0 {
		tk.Err = fmt.Errorf("the record holds %q, which ends a record for the worker: use --worker-protocol json", end)
	}
}

// appendMembers appends the members of the JSON object that tells a worker about a record: its
// columns, and either the members of its object or the columns with names.
func (t *Tasks) appendMembers(b []byte, tk *task.Task, rec *Record) []byte {
	b = task.AppendColumns(append(b, `"args":`...), rec.Columns)
	b = append(b, `,"fields":`...)
	if tk.Object != "" {
		return append(b, strings.ReplaceAll(strings.TrimSpace(tk.Object), "\n", " ")...)
	}
	return task.AppendFields(b, t.r.names, rec.Columns)
}
