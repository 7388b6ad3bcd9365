package input

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
)

// Count returns how many tasks Tasks would make, without making them: it looks for
// the ends of records and little else. It opens the files again, so cfg needs a
// Stdin of its own if records come from there. ok is false if the number cannot be
// known in this way, if a file is not a regular one or cannot be read, or if stop
// was set meanwhile.
func Count(cfg Config, tc TasksConfig, stop *atomic.Bool) (n int64, ok bool) {
	// Whether an object is empty shows only when it is parsed.
	if tc.Limits.Chars > 0 || cfg.SkipEmpty && cfg.Format.Kind == JSON || !cfg.regular() {
		return 0, false
	}
	r, err := Open(cfg)
	if err != nil {
		return 0, false
	}
	defer r.Close()
	n = 1
	size := 0 // of a record at most
	for _, a := range r.axes {
		shortest := int64(-1)
		for _, s := range a.parts {
			records, longest, err := s.count(stop)
			if err != nil {
				return 0, false
			}
			if shortest < 0 || records < shortest {
				shortest = records
			}
			size += longest
		}
		n *= shortest
	}
	if per := int64(tc.Limits.Records); per > 1 {
		// A bad record is a task of its own.
		one := cfg.Format.Kind == Lines && cfg.Format.Colsep == nil && cfg.sources() <= 1
		if !one || size > r.axes[0].parts[0].scan.max || !tc.takes(min(per, n), size) {
			return 0, false
		}
		n = (n + per - 1) / per
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

// takes reports whether n records of one column and at most size bytes are sure to
// fit into one command.
func (c TasksConfig) takes(n int64, size int) bool {
	const quoted = 4 // bytes that a byte becomes at most
	t := NewTasks(nil, c)
	short := c.Template.RecordSize([]string{"a/b.c"})
	places := c.Template.RecordSize([]string{"aa/bb.cc"}) - short // at least: each part is longer
	each := int64(short + places*quoted*size)
	return t.maxSize > 0 && n*each <= int64(t.maxSize-t.empty.size)
}

var errCountStopped = errors.New("nobody wants to know the number of records any more")

// count returns how many records are left in s, and the size of the longest.
func (s *stream) count(stop *atomic.Bool) (n int64, longest int, err error) {
	asRead := s.files != nil && !s.leavesOut() && (s.header == nil || len(s.files) == 1)
	err = s.err // of an empty file with a header
	for seen := 0; err == nil; seen++ {
		if seen%1024 == 0 && stop.Load() {
			return 0, 0, errCountStopped
		}
		var text string
		var size int
		if asRead {
			_, size, err = s.raw()
		} else {
			text, size, err = s.text()
		}
		if err != nil {
			break
		}
		longest = max(longest, size, len(text))
		if !asRead && size <= s.scan.max {
			if s.cfg.EOF != nil && text == *s.cfg.EOF {
				break
			}
			if s.skips(text) || s.repeatsHeader(text) {
				continue
			}
		}
		s.first = false
		n++
	}
	if err == io.EOF {
		err = nil
	}
	return n, longest, err
}

// leavesOut reports whether records can be left out because of their text.
func (s *stream) leavesOut() bool {
	return s.cfg.EOF != nil || s.cfg.SkipEmpty || s.cfg.Comments || s.cfg.Format.Kind != Lines
}

// repeatsHeader reports whether a record is the first of its file and the same as
// the header.
func (s *stream) repeatsHeader(text string) bool {
	first := s.first
	s.first = false
	if !first || s.header == nil {
		return false
	}
	var rec Record
	s.record(&rec, text)
	return slices.Equal(rec.Columns, s.header)
}
