package input

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
)

// Count returns how many tasks Tasks would make. Where each record is one, it does not
// make them: it only reads the records of each source. It opens the files again, so cfg
// needs a Stdin of its own if records come from there. ok is false if a file is not a
// regular one or cannot be read, or if stop was set meanwhile.
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
		number := func() uint64 { return uint64(n) + 1 }
		if tc.Objects { // then tasks need no numbers, and without them no names are kept
			number = func() uint64 { return 0 }
		}
		for t := NewTasks(r, tc); n%64 != 0 || !stop.Load(); n++ {
			if _, err := t.Next(number); err != nil {
				return n, err == io.EOF
			}
		}
		return 0, false
	}
	n = 1
	for _, a := range r.axes {
		shortest := int64(-1)
		for _, s := range a.parts {
			records, err := s.count(stop)
			if err != nil {
				return 0, false
			}
			if shortest < 0 || records < shortest {
				shortest = records
			}
		}
		n *= shortest
	}
	return n, true
}

// regular reports whether all files of the input are regular ones. To read another
// would take from the run.
func (c Config) regular() bool {
	irregular := func(path string) bool {
		st, err := os.Stat(path)
		return path != "-" && (err != nil || !st.Mode().IsRegular())
	}
	return !slices.ContainsFunc(c.Files, irregular) &&
		!slices.ContainsFunc(c.Groups, func(g Group) bool { return g.File != "" && irregular(g.File) })
}

var errCountStopped = errors.New("nobody wants to know the number of records any more")

// count returns how many records are left in s.
func (s *stream) count(stop *atomic.Bool) (n int64, err error) {
	f := &s.cfg.Format
	// Then it is enough to find the ends of records, which takes a twentieth of the time.
	ends := s.files != nil && f.Kind == Lines && f.Colsep == nil && !f.Header &&
		s.cfg.EOF == nil && !s.cfg.SkipEmpty && !s.cfg.Comments
	for rec := (Record{}); n%1024 != 0 || !stop.Load(); n++ {
		if ends {
			_, _, err = s.raw()
		} else {
			err = s.next(&rec)
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		}
	}
	return 0, errCountStopped
}
