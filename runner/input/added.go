package input

import (
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// Give has Next go on with values, of which it makes what it would make of the
// values of a Group. The Reader must have one Group of values, and Next must have
// read it to its end.
func (t *Tasks) Give(values []string) {
	s := t.r.axes[0].parts[0]
	s.values, s.line, s.err = values, 0, nil
}

// Command returns a task that runs words as they are: one word as a command line,
// several as a program with its arguments. Its record is the command line. The
// template must have no command. The caller owns the task.
func (t *Tasks) Command(words []string, id uint64) *task.Task {
	line := words[0]
	if len(words) > 1 {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = task.Quote(w)
		}
		line = strings.Join(quoted, " ")
	}
	tk := &task.Task{ID: id, Records: [][]string{{line}}, Argv: words}
	t.fill(tk, &expand.Values{Records: tk.Records}, nil)
	if len(words) == 1 && tk.Err == nil {
		tk.Argv, tk.Shell, tk.Err = t.cfg.Template.Script(words[0], nil)
	}
	t.bound(tk)
	return tk
}

// Remake returns what a task of a value, which another Tasks has made, is for this command.
// It has the same number. A value that was cut into several columns keeps these. The caller
// owns the task.
func (t *Tasks) Remake(was *task.Task) (*task.Task, error) {
	var columns []string
	if len(was.Records) > 0 {
		columns = was.Records[0]
	}
	switch {
	case was.Object != "":
		t.Give([]string{was.Object})
	case len(columns) == 1:
		t.Give(columns)
	default:
		return t.of([]Record{{Columns: columns}}, was.ID), nil
	}
	return t.Next(func() uint64 { return was.ID })
}
