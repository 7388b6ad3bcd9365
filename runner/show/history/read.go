package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// Read reads a source and calls each for every line of it. A source is a --state directory, which a
// run may be writing at the same time, or a file with one or more runs one after the other: a joblog
// of crew or GNU parallel, or the output of --json, crew ctl watch --json or crew state --json. The
// path "-" means stdin.
//
// Damaged parts are skipped, and a Damaged line at the end says so. For an empty file, each is never called.
//
// The runs of a joblog are told apart by the marks of their rows. Runs with the same mark, and those
// of --json results, are told apart by task numbers, as a number occurs once in a run.
func Read(path string, stdin io.Reader, each func(*Line)) error {
	if path == "-" {
		return ReadStream("standard input", stdin, each)
	}
	return newReader(path, each).open()
}

// ReadStream is like Read for an open file; name is used in messages.
func ReadStream(name string, r io.Reader, each func(*Line)) error {
	return newReader(name, each).read(r)
}

// open reads the file or directory r.name.
func (r *reader) open() error {
	f, err := os.Open(r.name)
	if err != nil {
		return r.readError(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		_, err := r.readDir()
		if errors.Is(err, os.ErrNotExist) {
			return r.unknownForm()
		}
		return err
	}
	return r.read(f)
}

// readError wraps the error of a source that cannot be read.
func (r *reader) readError(err error) error {
	return fmt.Errorf("read %s: %w", r.name, task.WithoutPath(err))
}

// State returns the summary and a Report of the runs of a --state directory. If there is no journal,
// the error is fs.ErrNotExist.
func State(dir string) (*journal.Summary, *Report, error) {
	f := NewFold()
	s, err := newReader(dir, f.Add).readDir()
	return s, f.Report(), err
}

// readDir reads a --state directory.
func (r *reader) readDir() (s *journal.Summary, err error) {
	defer func() { r.outputs.Close() }() // may be nil
	s, damage := journal.Dump(r.name, r)
	switch err = r.close(); {
	case err != nil:
		return s, err
	case s == nil:
		return nil, damage
	}
	if left := max(s.Begins, s.Waiting, r.left); left > 0 {
		r.emit(&Line{Event: control.Event{Name: Left, Count: int64(left)}})
	}
	if damage != nil {
		r.emitEvent(Damaged, time.Time{}, damage.Error())
	}
	return s, nil
}

// Write reads a whole line.
func (r *reader) Write(line []byte) (int, error) {
	r.line(line, true)
	return len(line), nil
}

// form is a format of lines.
type form uint8

const (
	noForm form = iota
	resultsForm
	watchForm
	journalForm
)

// reader reads one source and calls each with its lines.
type reader struct {
	name string
	each func(*Line)

	form         form      // of the previous line; noForm before the first
	at           time.Time // of the last line passed to each
	began        bool      // a run began
	runCount     int       // how many runs began
	lines        int64     // lines read
	damagedLines int64     // lines that were skipped
	firstDamage  string    // number and fault of the first damaged line

	runs  map[int]*seenTasks // results: the latest run by mark
	tails Tails              // watch

	// journals

	command string
	retried map[string]int // by task ID: the last attempt of a task that has not ended
	left    int            // tasks that the latest run read and did not run
	outputs *os.File       // their file of outputs; nil if that cannot be read
}

func newReader(name string, each func(*Line)) *reader {
	return &reader{name: name, each: each, runs: map[int]*seenTasks{}, retried: map[string]int{}}
}

// unknownForm returns the error of a source that has none of the formats.
func (r *reader) unknownForm() error {
	return fmt.Errorf("read %s: it is no joblog, no output of --json, and no directory of --state", r.name)
}

// read reads all lines.
func (r *reader) read(from io.Reader) error {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 64<<10), journal.MaxLine+1)
	in.Split(journal.SplitLine)
	for long := false; in.Scan(); {
		line, whole := bytes.CutSuffix(in.Bytes(), []byte("\n"))
		rest := long
		switch long = len(in.Bytes()) == journal.MaxLine && !whole; {
		case rest:
		case long:
			r.lines++
			r.damage("is too long")
		default:
			r.line(line, whole)
		}
	}
	if err := in.Err(); err != nil {
		return r.readError(err)
	}
	return r.close()
}

// line handles a line. If whole is false, it has no newline and may be incomplete, because a run is still writing it.
func (r *reader) line(line []byte, whole bool) {
	r.lines++
	switch text := bytes.TrimLeft(line, " \t\r"); {
	case len(text) == 0:
	case text[0] == '{':
		r.object(text, whole)
	default:
		r.row(text)
	}
}

// close handles the end of the source.
func (r *reader) close() error {
	switch {
	case r.damagedLines > 0 && r.form == noForm:
		return r.unknownForm()
	case r.damagedLines > 0:
		r.emitEvent(Damaged, time.Time{}, r.name+": "+task.Count(r.damagedLines, "damaged line")+" left out, first "+r.firstDamage)
	}
	return nil
}

// setForm sets the format of the current line. A change of format begins a new run.
func (r *reader) setForm(to form) {
	if r.form != to {
		r.form, r.began = to, false
		clear(r.runs)
	}
}

// begin emits the Began line of a new run.
func (r *reader) begin(at time.Time, command string) {
	r.began = true
	r.runCount++
	r.emitEvent(Began, at, command)
}

// emitEvent emits a line that is not about a task.
func (r *reader) emitEvent(name string, at time.Time, text string) {
	r.emit(&Line{Event: control.Event{Name: name, At: at, Text: text}})
}

// emit emits a line. If the line has no time, it gets the time of the previous line.
func (r *reader) emit(l *Line) {
	if l.At.IsZero() {
		l.At = r.at
	}
	r.at = l.At
	r.each(l)
}

// row handles a row of a joblog.
func (r *reader) row(row []byte) {
	if isHeader(row) {
		r.setForm(resultsForm)
		clear(r.runs)
		return
	}
	rec := &record{}
	if mark, ok := parseRow(row, rec); ok {
		r.result(mark, rec.line("finished"))
	} else {
		r.damage("is no whole row of a joblog")
	}
}

// seenTasks is the bit set of the task numbers seen in a run.
type seenTasks struct {
	run  int
	seen map[uint64]uint64
}

// result emits the attempts of a task that ended in a run with the given mark. It begins a new run if
// the latest one with this mark already has the task.
func (r *reader) result(mark int, attempts ...*Line) {
	r.setForm(resultsForm)
	id, run := attempts[0].Task, r.runs[mark]
	if run == nil || run.seen[id/64]>>(id%64)&1 > 0 {
		r.begin(attempts[0].Start, "")
		run = &seenTasks{r.runCount, map[uint64]uint64{}}
		r.runs[mark] = run
	}
	run.seen[id/64] |= 1 << (id % 64)
	for _, l := range attempts {
		l.Run = run.run
		r.emit(l)
	}
}

// object handles a line that is a JSON object. An invalid object is ignored if it is not whole.
func (r *reader) object(text []byte, whole bool) {
	rec := &record{}
	switch err := json.Unmarshal(text, rec); {
	case err != nil && !whole:
	case err == nil && rec.isValid() && rec.V > 0:
		r.watchLine(rec)
	case err == nil && rec.isValid() && rec.Name != "":
		r.journalLine(rec)
	case err == nil && rec.isValid() && rec.Task > 0 && rec.Outcome != 0:
		r.result(0, rec.attemptLines()...)
	default:
		r.damage("is no object of crew's")
	}
}

// damage counts the latest line as damaged.
func (r *reader) damage(why string) {
	if r.damagedLines++; r.damagedLines == 1 {
		r.firstDamage = fmt.Sprintf("line %d, which %s", r.lines, why)
	}
}

// attemptLines returns the lines of all attempts of a --json result.
func (r *record) attemptLines() (lines []*Line) {
	for _, a := range r.Attempts {
		lines = append(lines, r.earlier(a))
	}
	return append(lines, r.line("finished"))
}
