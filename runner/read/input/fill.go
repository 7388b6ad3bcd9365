package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// fillFromRecord fills in everything that depends on the task's records. rec is the first record.
func (t *Tasks) fillFromRecord(tk *task.Task, rec *Record) {
	if tk.Err == nil {
		tk.Err = t.checkRecords(tk)
	}
	v := expand.Values{Records: tk.Records}
	t.fillTexts(tk, &v, rec.Object, rawTexts{})
	switch {
	case tk.Err != nil:
	case t.cfg.Protocol != task.NoProtocol:
		t.fillForWorker(tk, rec)
	default:
		t.fillCommand(tk, v)
	}
}

// Fill sets the command of a task whose records another machine has read. It may be called
// while Next runs.
func (t *Tasks) Fill(tk *task.Task) error {
	if t.cfg.Protocol != task.NoProtocol {
		rec := Record{Text: string(tk.Stdin)} // the input of the worker, if tk.Records are not complete
		if len(tk.Records) > 0 {
			rec.Columns = tk.Records[0]
		}
		t.fillForWorker(tk, &rec)
		return tk.Err
	}
	v, err := valuesOf(tk, tk.Origin.Task, t.fields)
	if err != nil {
		return err
	}
	t.fillPlace(tk, v)
	t.fillCommand(tk, v)
	return tk.Err
}

// fillPlace sets the working directory of a task, unless it has its own, and the variables that it does not
// set itself.
func (t *Tasks) fillPlace(tk *task.Task, v expand.Values) {
	if t.cfg.Dir != nil && tk.Dir == "" && tk.Err == nil {
		if tk.Dir = t.cfg.Dir.Expand(v); tk.Dir == "" {
			tk.Err = errors.New("the name of its directory is empty")
		}
	}
	for i, text := range t.cfg.Env {
		tk.Env = slices.Insert(tk.Env, i, text.Expand(v))
	}
}

// Tag sets the tag of a task that has its records.
func (t *Tasks) Tag(tk *task.Task) {
	if t.cfg.Tag != nil {
		t.cfg.Tag.FillTag(tk, expand.Values{Records: tk.Records, Seq: tk.ID})
	}
}

// fillTexts sets the properties that do not depend on the task's command. obj is the JSON object that the
// task comes from, if any, and the texts in w take precedence over templates.
func (t *Tasks) fillTexts(tk *task.Task, v *expand.Values, obj Object, w rawTexts) {
	v.Seq = tk.ID
	if obj != nil && tk.Err == nil {
		err := t.checkUnits(obj)
		if err == nil {
			v.Fields, err = obj.fields(t.fields)
		}
		if err != nil {
			tk.Err = t.r.errorAt(err)
		}
	}
	t.fillPlace(tk, *v)
	for i, text := range t.cfg.Templates {
		if text != nil && w[i] == nil {
			w[i] = new(text.Expand(*v))
		}
	}
	if tk.Err != nil {
		w = rawTexts{w[0]} // it has a key, nevertheless
	}
	tk.Err = cmp.Or(tk.Err, t.cfg.Terms.setTerms(tk, w))
	if t.cfg.Tag != nil {
		t.cfg.Tag.FillTag(tk, *v)
	}
	if len(t.cfg.Files.Makes) > 0 && tk.Err == nil {
		tk.Makes, tk.Err = t.cfg.Files.makingOf(tk, v)
		t.spellings.resolve(tk, t.cfg.Files.Dir)
	}
}

// fillCommand sets the task's command, or its Err if the system would not accept the command.
func (t *Tasks) fillCommand(tk *task.Task, v expand.Values) {
	t.cfg.Template.Fill(tk, v)
	t.checkLimits(tk)
}

// stdin returns the standard input of a task with these records.
func (t *Tasks) stdin(recs []Record) (text []byte) {
	for i := range recs {
		text = append(append(text, recs[i].text()...), t.r.delimiter...)
	}
	return text
}

// parseCost parses a positive number. It rounds up, and numbers above the largest int64 down to it. Its error
// continues the text.
func parseCost(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || !(f > 0) || math.IsInf(f, 1):
		return 0, errors.New("is not a positive number")
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	}
	return int64(math.Ceil(f)), nil
}

// Command returns a task that runs words without expanding placeholders: one word is a command
// line, several are a program and its arguments. Its record is the command line. The template must
// have no command. The caller owns the task.
func (t *Tasks) Command(words []string, id uint64) *task.Task {
	tk, script := &task.Task{ID: id}, len(words) == 1
	line := words[0]
	if !script {
		line = tk.CommandLine(words)
	}
	tk.Records = [][]string{{line}}
	t.fillTexts(tk, &expand.Values{Records: tk.Records}, nil, rawTexts{})
	return t.setCommand(tk, words, script, nil)
}

// setCommand sets the command of a task that comes from its record: words and args. If script is
// set, words is a single shell script.
func (t *Tasks) setCommand(tk *task.Task, words []string, script bool, args []string) *task.Task {
	switch {
	case tk.Err != nil:
	case script:
		tk.Argv, tk.Shell, tk.Err = t.cfg.Template.Script(words[0], args)
	default:
		tk.Argv = slices.Concat(words, args)
	}
	t.checkLimits(tk)
	return tk
}

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
