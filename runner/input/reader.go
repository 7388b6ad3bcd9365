package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Reader gives the records of an input, one at a time.
type Reader struct {
	// configuration

	format    Format
	delimiter string
	names     []string

	// state

	axes []*axis
	row  []Record // one of each axis: the product's latest; nil before the first
	at   []int    // where each inner axis stands
	err  error    // what ended the product
	slab slab
}

// Open opens every file at once and reads what names the columns. The Reader
// owns the files, but for Config.Stdin.
func Open(cfg Config) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Reader{format: cfg.Format}
	if err := r.open(cfg); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(cfg Config) error {
	paths := cfg.Files
	if cfg.sources() == 0 {
		paths = []string{"-"}
	}
	if len(paths) > 0 {
		files, err := openFiles(cfg.Stdin, paths)
		r.add(newStream(cfg, nil, files), false)
		if err != nil {
			return err
		}
	}
	for _, g := range cfg.Groups {
		if g.File == "" {
			r.add(newStream(cfg, g.Values, nil), g.Linked)
			continue
		}
		files, err := openFiles(cfg.Stdin, []string{g.File})
		r.add(newStream(cfg, nil, files), g.Linked)
		if err != nil {
			return err
		}
	}
	r.delimiter = r.axes[0].parts[0].delim
	if !cfg.Format.Header {
		return nil
	}
	return r.readHeaders()
}

func (r *Reader) add(s *stream, linked bool) {
	if linked {
		last := r.axes[len(r.axes)-1]
		last.parts = append(last.parts, s)
		return
	}
	r.axes = append(r.axes, &axis{parts: []*stream{s}})
}

// readHeaders takes the first record of each source for names. A name that is
// there already is left empty, so that it means the first column of that name.
func (r *Reader) readHeaders() error {
	r.names = []string{}
	seen := make(map[string]bool)
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
			for _, n := range rec.Columns {
				n = strings.TrimSuffix(n, "\r") // of a file with CRLF line ends
				if seen[n] {
					n = ""
				}
				seen[n] = true
				r.names = append(r.names, n)
			}
		}
	}
	return nil
}

// openFiles opens what paths name; "-" is stdin. With an error it returns what
// was open by then.
func openFiles(stdin io.Reader, paths []string) ([]file, error) {
	var files []file
	for _, path := range paths {
		f := file{name: path}
		if path == "-" {
			if stdin == nil {
				return files, errors.New("there is no standard input")
			}
			f.name, f.rd = "standard input", stdin
		} else {
			o, err := os.Open(path)
			if err != nil {
				return files, fmt.Errorf("open input %s: %w", path, cause(err))
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

// cause takes the path off an error that is going to name it in its own way.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Names are the names of the columns, in order; a column without one has "".
// It is nil without a header.
func (r *Reader) Names() []string { return r.names }

// read puts the next record into rec. It blocks until one has been read; io.EOF
// ends the records, and so does any other error, which it then goes on to return.
func (r *Reader) read(rec *Record) error {
	if len(r.axes) == 1 {
		return r.axes[0].next(rec)
	}
	return r.product(rec)
}

// Close closes the files. No reading may be under way.
func (r *Reader) Close() error {
	var errs []error
	for _, a := range r.axes {
		for _, s := range a.parts {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}
