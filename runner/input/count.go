package input

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
)

// Count returns how many tasks Tasks would make, without making them: it only reads
// the records of each source. It opens the files again, so cfg needs a Stdin of its
// own if records come from there. ok is false if the number cannot be known in this
// way, if a file is not a regular one or cannot be read, or if stop was set
// meanwhile.
func Count(cfg Config, tc TasksConfig, stop *atomic.Bool) (n int64, ok bool) {
	if tc.Limits.Chars > 0 || !cfg.regular() {
		return 0, false
	}
	r, err := Open(cfg)
	if err != nil {
		return 0, false
	}
	defer r.Close()
	if tc.Share != nil {
		return countShare(r, tc, stop)
	}
	n = 1
	var all sizes
	for _, a := range r.axes {
		shortest := int64(-1)
		for _, s := range a.parts {
			records, err := s.count(&all, stop)
			if err != nil {
				return 0, false
			}
			if shortest < 0 || records < shortest {
				shortest = records
			}
		}
		n *= shortest
	}
	if per := int64(tc.Limits.Records); per > 1 {
		// A bad record is a task of its own.
		if all.bad || all.columns > 1 || cfg.sources() > 1 || !tc.takes(min(per, n), all.longest) {
			return 0, false
		}
		n = (n + per - 1) / per
	}
	return n, true
}

// countShare counts the tasks of a share, record by record.
func countShare(r *Reader, tc TasksConfig, stop *atomic.Bool) (n int64, ok bool) {
	if tc.Limits.batches() {
		return 0, false
	}
	for t := NewTasks(r, tc); n%1024 != 0 || !stop.Load(); n++ {
		if err := t.read(); err != nil {
			return n, err == io.EOF
		}
	}
	return 0, false
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

// takes reports whether n records of one column and at most size bytes are sure to
// fit into one command.
func (c TasksConfig) takes(n int64, size int) bool {
	const quoted = 4 // bytes that a byte becomes at most
	t := NewTasks(nil, c)
	short, joined := c.Template.RecordSize([]string{"a/b.c"})
	long, _ := c.Template.RecordSize([]string{"aa/bb.cc"})
	places := long - short // at least: each part is longer
	each := int64(short + places*quoted*size)
	limit := t.maxSize
	if joined > 0 {
		limit = min(limit, maxArgument)
	}
	return limit > 0 && n*each <= int64(limit-t.empty.size)
}

// sizes are the largest sizes of some records.
type sizes struct {
	longest int // bytes
	columns int
	bad     bool // one has an Err
}

var errCountStopped = errors.New("nobody wants to know the number of records any more")

// count returns how many records are left in s, and adds their sizes to all.
func (s *stream) count(all *sizes, stop *atomic.Bool) (n int64, err error) {
	f := &s.cfg.Format
	// Then it is enough to find the ends of records, which takes a twentieth of the time.
	ends := s.files != nil && f.Kind == Lines && f.Colsep == nil && !f.Header &&
		s.cfg.EOF == nil && !s.cfg.SkipEmpty && !s.cfg.Comments
	for rec := (Record{}); n%1024 != 0 || !stop.Load(); n++ {
		size := 0
		if ends {
			_, size, err = s.raw()
		} else {
			err = s.next(&rec)
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		}
		all.longest = max(all.longest, size, len(rec.Text))
		all.columns = max(all.columns, len(rec.Columns))
		all.bad = all.bad || rec.Err != nil || size > s.scan.max
	}
	return 0, errCountStopped
}
