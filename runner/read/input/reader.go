package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"crew/runner/decide/task"
)

// Reader reads the records of an input.
type Reader struct {
	// configuration

	delimiter string
	names     []string

	// state

	axes []*axis
	row  []Record // the current record of each axis
	err  error    // the error that ended the input
}

// Open opens all files and reads the headers, if any. cfg must be valid. The Reader owns the files,
// but not Config.Stdin.
func Open(cfg Config) (*Reader, error) {
	r := &Reader{}
	if err := r.open(cfg); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(cfg Config) error {
	for _, g := range cfg.sources() {
		files, err := openFiles(cfg.Stdin, g.files)
		s := newStream(cfg, g.Values, files) // on error it owns the files opened so far
		if !g.Linked {
			r.axes = append(r.axes, &axis{})
		}
		last := r.axes[len(r.axes)-1]
		last.parts = append(last.parts, s)
		if err != nil {
			return err
		}
	}
	r.delimiter, r.row = string(r.firstSource().scan.delim), make([]Record, len(r.axes))
	if cfg.Header == 0 {
		return nil
	}
	return r.readHeaders()
}

// First returns the columns of the first record of the first source, which read will return,
// too. It blocks until the record has been read. It returns nil if there is no record.
func (r *Reader) First() []string {
	if len(r.axes) == 0 {
		return nil
	}
	var rec Record
	s := r.firstSource()
	if s.next(&rec) != nil {
		return nil
	}
	s.peeked = &rec
	return rec.Columns
}

// readHeaders reads the first record of each source as names of its columns. The rest of the header is
// left out later.
func (r *Reader) readHeaders() error {
	r.names = []string{}
	for _, a := range r.axes {
		for _, s := range a.parts {
			var rec Record
			err := s.next(&rec)
			if err == nil {
				err = rec.Err
			}
			if err != nil && err != io.EOF {
				return fmt.Errorf("read the header: %w", err)
			}
			s.header, s.skip, s.head = rec.Columns, s.cfg.Header-1, s.lines
			for _, n := range rec.Columns {
				r.names = append(r.names, strings.TrimSuffix(n, "\r")) // the lines may end in CRLF
			}
		}
	}
	return nil
}

// openFiles opens the files at paths, where "-" is stdin. On error it returns the files opened so
// far.
func openFiles(stdin io.Reader, paths []string) ([]file, error) {
	var files []file
	for _, path := range paths {
		f := file{name: path}
		if path == "-" {
			f.name, f.rd, f.c = "standard input", stdin, io.NopCloser(stdin)
		} else {
			o, err := os.Open(path)
			if err != nil {
				return files, fmt.Errorf("open input %s: %w", path, task.WithoutPath(err))
			}
			f.rd, f.c = o, o
		}
		files = append(files, f)
		o, _ := f.rd.(*os.File)
		if info, err := o.Stat(); err == nil && info.IsDir() {
			return files, fmt.Errorf("read %s: it is a directory", f.name)
		}
	}
	return files, nil
}

// Names returns the names of the columns, with "" for a column without a name. Two may be equal. It
// returns nil if there is no header.
func (r *Reader) Names() []string { return r.names }

// Header returns how many lines precede the first record in the first file of the first source. It is
// valid once a record has been read.
func (r *Reader) Header() int { return r.firstSource().head }

// Named returns a Reader without records. Its columns have the given names.
func Named(names []string) *Reader { return &Reader{names: names} }

// read stores the next record in rec. It blocks until the record has been read.
// It returns io.EOF after the last record, and keeps returning the error that
// ended the input.
func (r *Reader) read(rec *Record) error {
	switch {
	case r.err != nil:
	case len(r.axes) == 1:
		r.err = r.axes[0].next(rec)
	default:
		if r.err = r.advance(); r.err == nil {
			*rec = joinRecords(r.row)
		}
	}
	return r.err
}

func (r *Reader) firstSource() *stream { return r.axes[0].parts[0] }

// single reports whether there is only one source.
func (r *Reader) single() bool { return len(r.axes) == 1 && len(r.axes[0].parts) == 1 }

// errorAt returns err with the position of the latest record of the first source.
func (r *Reader) errorAt(err error) error {
	return fmt.Errorf("%s: %w", r.firstSource().position(), err)
}

// Close closes the files. It must not be called during a read.
func (r *Reader) Close() (err error) {
	for _, a := range r.axes {
		for _, s := range a.parts {
			err = errors.Join(err, s.close())
		}
	}
	return err
}
