package input

import (
	"cmp"
	"crew/runner/decide/task"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Reader reads the records of an input.
type Reader struct {
	// configuration

	delimiter string
	names     []string
	header    int // lines of the first source that its names take

	// state

	axes []*axis
	row  []Record // the product's current record of each axis
	slab slab
	err  error // ended the input
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
		s := newStream(cfg, g.Values, files) // on error it has the files that are open
		if !g.Linked {
			r.axes = append(r.axes, &axis{})
		}
		last := r.axes[len(r.axes)-1]
		last.parts = append(last.parts, s)
		if err != nil {
			return err
		}
	}
	r.delimiter, r.row = r.first().delim, make([]Record, len(r.axes))
	if !cfg.Format.Header {
		return nil
	}
	return r.readHeaders()
}

// First returns the columns of the first record of the first source, which read will
// return. It blocks until that has been read. It returns nil if there is none, or if
// something is wrong with it.
func (r *Reader) First() []string {
	if len(r.axes) == 0 {
		return nil
	}
	var rec Record
	s := r.first()
	if s.next(&rec) != nil {
		return nil
	}
	s.peeked = &rec
	if rec.Err != nil {
		return nil
	}
	return rec.Columns
}

// readHeaders takes the first record of each source for names.
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
			s.header = rec.Columns
			r.header = cmp.Or(r.header, s.lines)
			for _, n := range rec.Columns {
				r.names = append(r.names, strings.TrimSuffix(n, "\r")) // the file may have CRLF line ends
			}
		}
	}
	return nil
}

// openFiles opens the files at paths; "-" is stdin. On error it returns the files
// opened so far.
func openFiles(stdin io.Reader, paths []string) ([]file, error) {
	var files []file
	for _, path := range paths {
		f := file{name: path}
		if path == "-" {
			if stdin == nil {
				return files, errors.New("there is no standard input")
			}
			f.name, f.rd, f.c = "standard input", stdin, io.NopCloser(stdin)
		} else {
			o, err := os.Open(path)
			if err != nil {
				return files, fmt.Errorf("open input %s: %w", path, task.WithoutPath(err))
			}
			f.rd, f.c = o, o
		}
		files = append(files, f)
		if s, ok := f.rd.(interface{ Stat() (fs.FileInfo, error) }); ok {
			if info, err := s.Stat(); err == nil && info.IsDir() {
				return files, fmt.Errorf("read %s: it is a directory", f.name)
			}
		}
	}
	return files, nil
}

// Names returns the names of the columns, with "" for a column without one. Two may be the
// same. It returns nil if there is no header.
func (r *Reader) Names() []string { return r.names }

// Header returns how many lines the names of the columns take, if there are any.
func (r *Reader) Header() int { return r.header }

// Named returns a Reader without records whose columns have these names.
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
			*rec = join(r.row, &r.slab)
		}
	}
	return r.err
}

// first returns the first source.
func (r *Reader) first() *stream { return r.axes[0].parts[0] }

// single reports whether there is one source.
func (r *Reader) single() bool { return len(r.axes) == 1 && len(r.axes[0].parts) == 1 }

// at returns an error in the latest record of the first source, with its place.
func (r *Reader) at(err error) error {
	return fmt.Errorf("%s: %w", r.first().where(), err)
}

// Close closes the files. It must not be called during a read.
func (r *Reader) Close() error {
	var errs []error
	for _, a := range r.axes {
		for _, s := range a.parts {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}
