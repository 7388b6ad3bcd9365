package sink

import (
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"crew/runner/task"
)

// object writes results as JSON, one object on one line each, with the keys
// always in the same order. However large an output is, it goes through in
// pieces.
//
// Where attempts failed before, attempts lists them, each with what it wrote.
//
// JSON strings hold no bytes but valid UTF-8. An output that is something else
// is given in base64, under stdout_base64 or stderr_base64. In args and command
// each wrong byte becomes U+FFFD, and args_base64 (in the form of args) and
// command_base64 beside them hold the bytes as they are. So it is with key.
type object struct {
	outputs bool // stdout and stderr are part of it
	batches bool // tasks can have several records
	buf     []byte
	check   utf8Check
	escape  escaper
}

// write writes the object of a task that ended with r.
func (j *object) write(w io.Writer, t *task.Task, r *task.Result) error {
	j.buf = appendFacts(j.buf[:0], t, r, j.batches)
	for i, b := range r.Before {
		j.buf = appendAttempt(j.buf, i, b)
		if err := j.streams(w, b); err != nil {
			return err
		}
		j.buf = append(j.buf, '}')
	}
	if len(r.Before) > 0 {
		j.buf = append(j.buf, ']')
	}
	if err := j.streams(w, r); err != nil {
		return err
	}
	j.buf = append(j.buf, "}\n"...)
	_, err := w.Write(j.buf)
	return err
}

// streams writes what is in buf and both outputs, where they are part of it.
func (j *object) streams(w io.Writer, r *task.Result) error {
	if !j.outputs {
		return nil
	}
	if err := j.stream(w, "stdout", r.Stdout); err != nil {
		return err
	}
	return j.stream(w, "stderr", r.Stderr)
}

// appendAttempt appends the ith attempt that failed before, still open, to their
// list.
func appendAttempt(b []byte, i int, r *task.Result) []byte {
	if i == 0 {
		b = append(task.AppendName(b, "attempts"), '[')
	} else {
		b = append(b, ',')
	}
	open := len(b)
	b = appendError(r.AppendFacts(b), r)
	b[open] = '{' // where a comma was
	return b
}

func appendError(b []byte, r *task.Result) []byte {
	if r.Outcome == task.StartFailed && r.Err != nil {
		b = task.AppendText(b, "error", r.Err.Error())
	}
	return b
}

// stream writes what is in buf and then one stream of output.
func (j *object) stream(w io.Writer, name string, o task.Output) error {
	if o == nil || o.Len() == 0 {
		j.buf = task.AppendText(j.buf, name, "")
		return nil
	}
	valid, err := j.check.valid(o)
	if err != nil {
		return err
	}
	if !valid {
		name += "_base64"
	}
	j.buf = append(task.AppendName(j.buf, name), '"')
	if _, err := w.Write(j.buf); err != nil {
		return err
	}
	if valid {
		j.escape.w = w
		_, err = o.WriteTo(&j.escape)
	} else {
		enc := base64.NewEncoder(base64.StdEncoding, w)
		if _, err = o.WriteTo(enc); err == nil {
			err = enc.Close()
		}
	}
	j.buf = append(j.buf[:0], '"')
	return err
}

// appendFacts appends the object up to earlier attempts and outputs, still open.
func appendFacts(b []byte, t *task.Task, r *task.Result, batches bool) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, t.ID, 10)
	b = append(b, `,"args":`...)
	b = appendArgs(b, t.Records, batches, task.AppendString)
	if !validArgs(t.Records) {
		b = append(b, `,"args_base64":`...)
		b = appendArgs(b, t.Records, batches, appendBase64)
	}
	b = appendText(b, "command", commandLine(t, r))
	b = r.AppendFacts(b)
	if t.Key != "" {
		b = appendText(b, "key", t.Key)
	}
	return appendError(b, r)
}

// appendText appends s, and its bytes beside it where they are not UTF-8.
func appendText(b []byte, name, s string) []byte {
	b = task.AppendText(b, name, s)
	if !utf8.ValidString(s) {
		b = appendBase64(task.AppendName(b, name+"_base64"), s)
	}
	return b
}

// appendArgs appends the columns of the record, or a list of such lists where
// tasks can have several records.
func appendArgs(b []byte, records [][]string, batches bool, value func([]byte, string) []byte) []byte {
	if len(records) == 1 && !batches {
		return appendList(b, records[0], value)
	}
	b = append(b, '[')
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendList(b, r, value)
	}
	return append(b, ']')
}

func appendList(b []byte, columns []string, value func([]byte, string) []byte) []byte {
	b = append(b, '[')
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, c)
	}
	return append(b, ']')
}

func validArgs(records [][]string) bool {
	for _, r := range records {
		for _, c := range r {
			if !utf8.ValidString(c) {
				return false
			}
		}
	}
	return true
}

func appendBase64(b []byte, s string) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(s))
	return append(b, '"')
}

// escaper writes the inside of a JSON string to w.
type escaper struct {
	w   io.Writer
	buf []byte
}

func (e *escaper) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, piece)
		e.buf = task.AppendJSON(e.buf[:0], p[done:done+n])
		if _, err := e.w.Write(e.buf); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// utf8Check reads an output to see whether it is UTF-8. Characters may be cut
// anywhere between writes.
type utf8Check struct {
	cut [utf8.UTFMax]byte // the start of a character
	n   int               // its length
}

var errNotUTF8 = errors.New("not UTF-8")

func (c *utf8Check) valid(o task.Output) (bool, error) {
	c.n = 0
	_, err := o.WriteTo(c)
	if errors.Is(err, errNotUTF8) {
		return false, nil
	}
	return c.n == 0, err
}

// Write stops with errNotUTF8 at the first wrong byte, or shortly after it.
func (c *utf8Check) Write(p []byte) (int, error) {
	n := len(p)
	for c.n > 0 && len(p) > 0 {
		c.cut[c.n] = p[0]
		c.n++
		p = p[1:]
		if !utf8.FullRune(c.cut[:c.n]) {
			continue
		}
		if !utf8.Valid(c.cut[:c.n]) {
			return 0, errNotUTF8
		}
		c.n = 0
	}
	whole := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if utf8.RuneStart(p[len(p)-i]) {
			if !utf8.FullRune(p[len(p)-i:]) {
				whole = len(p) - i
			}
			break
		}
	}
	if !utf8.Valid(p[:whole]) {
		return 0, errNotUTF8
	}
	c.n += copy(c.cut[c.n:], p[whole:])
	return n, nil
}
