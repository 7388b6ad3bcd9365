package sink

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"crew/runner/decide/task"
)

// object writes results as JSON, one object per line, with task.Facts, the records and, if earlier
// attempts failed, their facts in attempts. If columns have names, fields holds them for each
// record. Text that is not UTF-8 is written in the form of task.Bytes. Outputs are streamed, so
// they may have any size.
type object struct {
	outputs bool // include stdout and stderr
	records Records
	buf     []byte
	valid   [][2]bool // which outputs of each attempt are UTF-8
	check   utf8Check
	escape  escaper
}

// Records describes the records of tasks.
type Records struct {
	Several bool     // a task may have several records
	Names   []string // column names, "" for a column without; nil if there are none
	Objects bool     // records are JSON objects, so their members have names
}

// write writes the object of a task with result r.
func (j *object) write(w io.Writer, t *task.Task, r *task.Result) error {
	if err := j.checkOutputs(r); err != nil {
		return err
	}
	j.buf = j.appendFacts(j.buf[:0], t, r)
	if len(r.Before) > 0 {
		j.buf = append(task.AppendName(j.buf, "attempts"), '[')
		for i, b := range r.Before {
			f := b.Facts()
			f.Task, f.Key = 0, "" // the outer object has them
			j.buf = f.AppendOpen(j.buf)
			if !b.Earlier {
				if err := j.appendOutputs(w, b, j.valid[i]); err != nil {
					return err
				}
			}
			j.buf = append(j.buf, "},"...)
		}
		j.buf[len(j.buf)-1] = ']'
	}
	if r.Omitted > 0 {
		j.buf = task.AppendInt(j.buf, "omitted", int64(r.Omitted))
	}
	if err := j.appendOutputs(w, r, j.valid[len(r.Before)]); err != nil {
		return err
	}
	j.buf = append(j.buf, "}\n"...)
	_, err := w.Write(j.buf)
	return err
}

// checkOutputs sets valid. If an output cannot be read, it returns the error before anything is written.
func (j *object) checkOutputs(r *task.Result) (err error) {
	j.valid = j.valid[:0]
	for _, a := range append(r.Before[:len(r.Before):len(r.Before)], r) {
		var valid [2]bool
		for i, o := range [...]task.Output{a.Stdout, a.Stderr} {
			if j.outputs && !a.Earlier {
				if valid[i], err = j.check.valid(o); err != nil {
					return err
				}
			}
		}
		j.valid = append(j.valid, valid)
	}
	return nil
}

// appendOutputs appends both outputs to the object, if they are included. It writes buf and the
// outputs to w, and leaves the rest in buf.
func (j *object) appendOutputs(w io.Writer, r *task.Result, valid [2]bool) error {
	if !j.outputs {
		return nil
	}
	for i, name := range [...]string{"stdout", "stderr"} {
		o := [...]task.Output{r.Stdout, r.Stderr}[i]
		if task.Length(o) == 0 {
			j.buf = task.AppendText(j.buf, name, "")
			continue
		}
		open, end := `"`, `"`
		if !valid[i] {
			open, end = `{"base64":"`, `"}`
		}
		j.buf = append(task.AppendName(j.buf, name), open...)
		_, err := w.Write(j.buf)
		if err != nil {
			return err
		}
		if valid[i] {
			j.escape.w = w
			_, err = o.WriteTo(&j.escape)
		} else {
			enc := base64.NewEncoder(base64.StdEncoding, w)
			if _, err = o.WriteTo(enc); err == nil {
				err = enc.Close()
			}
		}
		if j.buf = append(j.buf[:0], end...); err != nil {
			return err
		}
	}
	return nil
}

// appendFacts appends the members before attempts and outputs. The object stays open.
func (j *object) appendFacts(b []byte, t *task.Task, r *task.Result) []byte {
	form, f := &j.records, r.Facts()
	f.Task, f.Key, f.Command = t.ID, task.Bytes(t.Key), task.Bytes(t.CommandLine(t.ArgvIn(r)))
	b = form.append(task.AppendName(f.AppendOpen(b), "args"), t.Records, task.AppendColumns)
	switch {
	case form.Objects && t.Object != "":
		b = append(task.AppendName(b, "fields"), t.Object...)
	case form.Names != nil && len(t.Records) > 0:
		b = form.append(task.AppendName(b, "fields"), t.Records, func(b []byte, columns []string) []byte {
			return task.AppendFields(b, form.Names, columns)
		})
	}
	if block := t.Block; block != nil { // its position in the input and its size
		b = append(task.AppendName(b, "block"), `{"input":`...)
		b = task.AppendInt(task.Bytes(block.Name).Append(b), "offset", block.Off)
		b = append(task.AppendInt(b, "bytes", block.Size()-int64(len(block.Head))), '}')
	}
	return b
}

// append appends value(record), or an array of these if tasks may have several records.
func (form *Records) append(b []byte, records [][]string, value func([]byte, []string) []byte) []byte {
	if len(records) == 1 && !form.Several {
		return value(b, records[0])
	}
	b = append(b, '[')
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, r)
	}
	return append(b, ']')
}

// escaper writes the inside of a JSON string to w.
type escaper struct {
	w   io.Writer
	buf []byte
}

func (e *escaper) Write(p []byte) (int, error) {
	for part := range slices.Chunk(p, piece) {
		e.buf = task.AppendJSON(e.buf[:0], part)
		if _, err := e.w.Write(e.buf); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// utf8Check checks whether an output is UTF-8. Writes may split characters.
type utf8Check struct {
	cut []byte // beginning of an incomplete character
}

var errNotUTF8 = errors.New("not UTF-8")

func (c *utf8Check) valid(o task.Output) (bool, error) {
	c.cut = nil
	if o == nil {
		return true, nil
	}
	_, err := o.WriteTo(c)
	if errors.Is(err, errNotUTF8) {
		return false, nil
	}
	return len(c.cut) == 0, err
}

// Write returns errNotUTF8 at the first invalid byte, or soon after it.
func (c *utf8Check) Write(p []byte) (int, error) {
	text := p
	if len(c.cut) > 0 {
		text = append(c.cut, p...)
	}
	whole := len(text)
	for i := max(0, whole-utf8.UTFMax+1); i < whole; i++ {
		if !utf8.FullRune(text[i:]) { // invalid bytes count as full
			whole = i
		}
	}
	if !utf8.Valid(text[:whole]) {
		return 0, errNotUTF8
	}
	c.cut = bytes.Clone(text[whole:])
	return len(p), nil
}
