package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"crew/runner/decide/task"
)

// Record is one item of the input.
type Record struct {
	Text    string   // as read, without its separator; "" in a product of several sources
	Columns []string // at least one; with JSON, the text
	Object  Object   // only with JSON
	Err     error    // why the record cannot be used; Columns are then its text, or nil if it is too long
	place   place    // position of its start, unless it comes from a product
}

// text returns the record as one text.
func (r *Record) text() string {
	if r.Text == "" {
		return strings.Join(r.Columns, " ")
	}
	return r.Text
}

// place is the position where a record begins: the number of its file, from 0, and of its line,
// from 1.
type place int64

const placeLines = 40 // bits of a place that hold the line

// file is a file open for reading.
type file struct {
	name string
	rd   io.Reader
	c    io.Closer // does nothing for files that the Reader does not own
}

// stream reads the records of one source: a group of values, or files one after another.
type stream struct {
	// configuration

	cfg   Config
	split splitter

	// state

	values []string
	files  []file // the first one is being read
	scan   scanner
	name   string
	header []string // of the first file, its first record; a later file may begin with an equal one
	skip   int      // number of records to leave out next
	head   int      // number of lines before the first record in the first file
	first  bool     // the next record is the first of its file
	at     int      // number of the file that is being read
	line   int      // where the latest record began
	lines  int      // number of line ends read in this file
	err    error    // the error that ended the stream
	peeked *Record  // the next record if it has been read already, or nil
}

func newStream(cfg Config, values []string, files []file) *stream {
	s := &stream{cfg: cfg, split: newSplitter(cfg.Format), values: values, files: files, skip: cfg.Skip}
	s.scan = scanner{delim: []byte(cmp.Or(cfg.Delimiter, "\n")), csv: s.split.csv, max: cmp.Or(cfg.MaxRecord, defaultMaxRecord)}
	if len(files) > 0 {
		s.open()
	}
	return s
}

func (s *stream) open() {
	s.name, s.first, s.skip = s.files[0].name, true, s.cfg.Skip
	s.line, s.lines = 0, 0
	s.scan.reset(s.files[0].rd)
}

func (s *stream) close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.c.Close())
	}
	s.files = nil
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return err
}

// next stores the next record that is not skipped in rec.
func (s *stream) next(rec *Record) error {
	if s.peeked != nil {
		*rec, s.peeked = *s.peeked, nil
		return nil
	}
	for s.err == nil {
		text, size, err := s.nextText()
		if err != nil {
			s.err = err
			break
		}
		if s.skip > 0 {
			if s.skip--; s.at == 0 {
				s.head = s.lines
			}
			continue
		}
		if size > s.scan.max {
			s.first = false
			*rec = Record{place: s.place(s.line), Err: fmt.Errorf("%s: record is %d bytes, the limit is %d", s.position(), size, s.scan.max)}
			return nil
		}
		if s.cfg.EOF != "" && text == s.cfg.EOF {
			s.err, s.lines = io.EOF, s.line-1 // nextPlace is that of this record
			break
		}
		if s.skips(text) {
			continue
		}
		first := s.first
		s.first = false
		s.setRecord(rec, text)
		if first && s.header != nil && slices.Equal(rec.Columns, s.header) {
			s.skip = s.cfg.Header - 1
			continue
		}
		return nil
	}
	return s.err
}

// buffered reports whether next certainly returns without reading from a file.
func (s *stream) buffered() bool {
	if s.peeked != nil || s.err != nil || s.files == nil {
		return s.peeked != nil || s.err == nil
	}
	// Skipped records are empty or blank, or comments. At the start of a file, a byte order mark
	// may hide this.
	rec, ok := s.scan.buffered()
	all := s.cfg.Kind == Lines && !s.cfg.SkipEmpty && !s.cfg.Comments // no record is skipped
	return ok && s.skip == 0 && (!s.first || s.header == nil) && (all || s.lines > 0 && len(rec) > 0 && rec[0] > ' ' && rec[0] != '#')
}

// skips reports whether a record with this text is left out.
func (s *stream) skips(text string) bool {
	switch {
	case text == "":
		return s.cfg.SkipEmpty || s.cfg.Comments || s.cfg.Kind != Lines
	case s.cfg.Comments && text[0] == '#':
		return true
	case s.cfg.Comments || s.cfg.Kind == JSON:
		return strings.TrimSpace(text) == ""
	}
	return false
}

// nextText returns the text and the size of the next record. If the record is too long, the text is
// incomplete.
func (s *stream) nextText() (string, int, error) {
	if s.files == nil {
		if len(s.values) == 0 {
			return "", 0, io.EOF
		}
		v := s.values[0]
		s.values = s.values[1:]
		s.line++
		return v, 0, nil
	}
	raw, size, err := s.nextRaw()
	if err != nil {
		return "", 0, err
	}
	return string(s.clean(raw)), size, nil
}

// nextRaw returns the bytes and the size of the next record of a file. The bytes are
// valid until the next call.
func (s *stream) nextRaw() ([]byte, int, error) {
	for {
		raw, size, err := s.scan.next()
		if err == nil {
			return raw, size, nil
		}
		if err != io.EOF {
			return nil, 0, fmt.Errorf("read %s: %w", s.name, task.WithoutPath(err))
		}
		s.files[0].c.Close()
		if s.files = s.files[1:]; len(s.files) == 0 {
			return nil, 0, io.EOF
		}
		s.at++
		s.open()
	}
}

// clean counts the lines of a record and strips bytes that are not part of it: the CR at
// the end of a CSV row, and the byte order mark at the start of a file with columns or
// with a header.
func (s *stream) clean(raw []byte) []byte {
	s.line = s.lines + 1
	s.lines++
	f := &s.cfg.Format
	if s.line == 1 && (f.Kind != Lines || f.Colsep != nil || f.Header > 0) {
		raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	}
	if s.split.csv {
		s.lines += bytes.Count(raw, []byte{'\n'})
		raw = bytes.TrimSuffix(raw, []byte{'\r'})
	}
	return raw
}

// setRecord sets rec to the record with this text.
func (s *stream) setRecord(rec *Record, text string) {
	rec.Text, rec.Object, rec.place = text, nil, s.place(s.line)
	if rec.Columns, rec.Err = s.split.columns(text); s.cfg.Kind == JSON {
		rec.Object, rec.Err = parseObject(text)
	}
	if rec.Err != nil {
		rec.Columns = []string{text}
		rec.Err = fmt.Errorf("%s: %w", s.position(), rec.Err)
	}
}

// place returns the position of a line in this file.
func (s *stream) place(line int) place { return place(s.at)<<placeLines | place(line) }

// nextPlace returns the position of the record after the latest one.
func (s *stream) nextPlace() place { return s.place(s.lines + 1) }

// position describes the position of the latest record, for messages.
func (s *stream) position() string {
	if s.name == "" {
		return fmt.Sprintf("value %d", s.line)
	}
	return fmt.Sprintf("line %d of %s", s.line, s.name)
}

// Count returns how many tasks a Tasks would make. If each record is a task, it only counts the
// records of each source. It opens the files again, so cfg.Stdin must be a different reader from
// the run's. ok is false if a file is not a regular file or cannot be read, or if stop is set before
// Count is done.
func Count(cfg Config, tc TasksConfig, stop *atomic.Bool) (n int64, ok bool) {
	if !cfg.regular() {
		return 0, false
	}
	r, err := Open(cfg)
	if err != nil {
		return 0, false
	}
	defer r.Close()
	if tc.Share != nil || tc.Limits.batches() {
		t, id := NewTasks(r, tc), uint64(0)
		return countUntilEOF(stop, func() error {
			if !tc.Objects { // without numbers, the names of objects are not stored
				id++
			}
			_, err := t.Next(func() uint64 { return id })
			return err
		})
	}
	n = 1
	for _, a := range r.axes {
		shortest := int64(math.MaxInt64)
		for _, s := range a.parts {
			var rec Record
			records, ok := countUntilEOF(stop, func() error { return s.next(&rec) })
			if !ok {
				return 0, false
			}
			shortest = min(shortest, records)
		}
		n *= shortest
	}
	return n, true
}

// countUntilEOF returns how often next returns nil before it returns io.EOF. ok is false after any other
// error and if stop is set.
func countUntilEOF(stop *atomic.Bool, next func() error) (n int64, ok bool) {
	for ; !stop.Load(); n++ {
		if err := next(); err != nil {
			return n, err == io.EOF
		}
	}
	return 0, false
}
