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

// Read tells what a source holds: a joblog of crew or of GNU parallel, a file of --json, of
// crew ctl watch --json or of crew state --json, each with one or more runs one after the
// other, or a directory of --state, which a run may be writing meanwhile; "-" is stdin. What is
// damaged is left out, which Damaged at the end says. An error of each ends it. Nothing at
// all is told of an empty file.
//
// The runs of a joblog are told apart by the marks of their rows. Those with the same mark,
// and those of results, are told apart by the numbers of their tasks: each comes once in a run.
func Read(path string, stdin io.Reader, each func(*Line) error) error {
	if path == "-" {
		return ReadStream("standard input", stdin, each)
	}
	return newReader(path, each).open()
}

// ReadStream is Read for an open file with this name.
func ReadStream(name string, r io.Reader, each func(*Line) error) error {
	return newReader(name, each).read(r)
}

// open reads the file or directory that is named.
func (r *reader) open() error {
	f, err := os.Open(r.name)
	if err != nil {
		return r.failed(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		_, err := r.readDir()
		if errors.Is(err, os.ErrNotExist) {
			return r.wrong()
		}
		if _, shut := errors.AsType[*os.PathError](err); shut {
			return r.failed(err)
		}
		return err
	}
	return r.read(f)
}

// failed returns the error of a source that cannot be read.
func (r *reader) failed(err error) error {
	return fmt.Errorf("read %s: %w", r.name, task.WithoutPath(err))
}

// State returns how the runs of a directory of --state stand, and a Report of them. Without a
// journal the error is fs.ErrNotExist.
func State(dir string) (*journal.Summary, *Report, error) {
	f := NewFold()
	s, err := newReader(dir, func(l *Line) error { f.Add(l); return nil }).readDir()
	return s, f.Report(), err
}

// readDir reads a directory of --state.
func (r *reader) readDir() (s *journal.Summary, err error) {
	r.saved = &journal.Saved{} // until the first line says which
	defer func() { r.saved.Close() }()
	lines, to := io.Pipe()
	dumped := make(chan error, 1)
	go func() {
		var err error
		s, err = journal.Dump(r.name, to)
		to.Close()
		dumped <- err
	}()
	err = r.read(lines)
	lines.Close()
	damage := <-dumped
	switch {
	case err != nil || damage == nil:
		return s, err
	case s == nil:
		return nil, damage
	}
	return s, r.say(Damaged, time.Time{}, damage.Error())
}

// form is a form of lines.
type form uint8

const (
	noForm form = iota
	resultsForm
	watchForm
	journalForm
)

// reader tells what a source holds.
type reader struct {
	name string
	each func(*Line) error

	form    form      // of the line before; noForm for none
	at      time.Time // of the last line that was told
	began   bool      // a run has begun
	begun   int       // so many have
	lines   int64     // that were begun
	damaged int64     // lines
	first   string    // which line was the first of these, and why

	runs   map[int]*numbers      // of results: the latest run with a mark
	pieces map[uint64]*[2]output // of watch: the ends of outputs, by task

	// of a journal

	command string
	retried map[string]int // the last attempt of a task that has not ended, by its ID
	saved   *journal.Saved // nil without its directory
}

func newReader(name string, each func(*Line) error) *reader {
	return &reader{name: name, each: each, runs: map[int]*numbers{}, pieces: map[uint64]*[2]output{}, retried: map[string]int{}}
}

// wrong returns the error of a source that has none of the forms.
func (r *reader) wrong() error {
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
		if long = len(in.Bytes()) == journal.MaxLine && !whole; rest {
			continue
		}
		r.lines++
		var err error
		switch text := bytes.TrimLeft(line, " \t\r"); {
		case long:
			r.damage("is too long")
		case len(text) == 0:
		case text[0] == '{':
			err = r.object(text, !whole)
		default:
			err = r.row(text)
		}
		if err != nil {
			return err
		}
	}
	switch err := in.Err(); {
	case err != nil:
		return r.failed(err)
	case r.damaged > 0 && r.form == noForm:
		return r.wrong()
	case r.damaged > 0:
		return r.say(Damaged, time.Time{}, r.name+": "+task.Count(r.damaged, "damaged line")+" left out, first "+r.first)
	}
	return nil
}

// turn notes the form of a line. With another one than that of the line before, a run begins.
func (r *reader) turn(to form) {
	if r.form != to {
		r.form, r.began = to, false
		clear(r.runs)
	}
}

// begin tells that a run begins.
func (r *reader) begin(at time.Time, command string) error {
	r.began = true
	r.begun++
	return r.say(Began, at, command)
}

// say tells a line about no task.
func (r *reader) say(name string, at time.Time, text string) error {
	return r.tell(&Line{Event: control.Event{Name: name, At: at, Text: text}})
}

// tell tells a line.
func (r *reader) tell(l *Line) error {
	if l.At.IsZero() {
		l.At = r.at
	}
	r.at = l.At
	return r.each(l)
}

// row reads a row of a joblog.
func (r *reader) row(row []byte) error {
	if isHeader(row) {
		r.turn(resultsForm)
		clear(r.runs)
		return nil
	}
	rec := &record{}
	mark, ok := parseRow(row, rec)
	if !ok {
		r.damage("is no whole row of a joblog")
		return nil
	}
	return r.result(mark, rec.line("finished"))
}

// numbers are those of the tasks of a run, 64 to a word.
type numbers struct {
	run  int
	seen map[uint64]uint64
}

// result tells the attempts of a task that has ended, in a run with this mark.
func (r *reader) result(mark int, attempts ...*Line) error {
	r.turn(resultsForm)
	id, run := attempts[0].Task, r.runs[mark]
	if run == nil || run.seen[id/64]>>(id%64)&1 > 0 {
		if err := r.begin(attempts[0].Start, ""); err != nil {
			return err
		}
		run = &numbers{r.begun, map[uint64]uint64{}}
		r.runs[mark] = run
	}
	run.seen[id/64] |= 1 << (id % 64)
	for _, l := range attempts {
		l.Run = run.run
		if err := r.tell(l); err != nil {
			return err
		}
	}
	return nil
}

// object reads a line that is an object. A last one without newline may not be whole, as a run may be
// writing it.
func (r *reader) object(text []byte, last bool) error {
	rec := &record{}
	switch err := json.Unmarshal(text, rec); {
	case err != nil && last:
		return nil
	case err != nil || !rec.sound():
	case rec.V > 0:
		return r.watched(rec)
	case rec.Name != "":
		return r.journaled(rec)
	case rec.Task > 0 && rec.Outcome != 0:
		return r.result(0, rec.tries()...)
	}
	r.damage("is no object of crew's")
	return nil
}

// damage counts the latest line as damaged.
func (r *reader) damage(why string) {
	if r.damaged++; r.damaged == 1 {
		r.first = fmt.Sprintf("line %d, which %s", r.lines, why)
	}
}

// tries returns the lines about the attempts of a result of --json.
func (r *record) tries() (lines []*Line) {
	for _, a := range r.Attempts {
		lines = append(lines, r.earlier(a))
	}
	return append(lines, r.line("finished"))
}
