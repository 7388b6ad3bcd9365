package input

import (
	"bytes"
	"io"
)

const (
	bufferSize = 64 << 10
	emptyReads = 100 // as in bufio: that many reads of nothing are an error
)

// scanner splits the bytes of a reader into records. It reads only when it holds
// no whole record, and then takes what is there.
type scanner struct {
	// configuration

	delim []byte // ends a record, unless csv is set
	csv   bool
	max   int // bytes of a record

	// state; buf[pos:end] is unread, and no record ends in buf[pos:seen]

	rd             io.Reader
	err            error // ended rd
	buf            []byte
	pos, seen, end int
	dropped        int      // bytes dropped from the record at pos, which is too long
	row            rowState // at seen
	at, sep        int      // where the record at pos ends and how long its separator is; sep is 0 if that is not known
}

// reset continues with another reader. It drops what is left of the last one.
func (s *scanner) reset(rd io.Reader) {
	s.rd, s.err = rd, nil
	s.pos, s.seen, s.end, s.dropped = 0, 0, 0, 0
	s.row, s.sep = fileStart, 0
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
}

// next returns the next record without its separator, and its size. The bytes are
// valid until the next call. If the record is longer than max, they are nil. The
// last record needs no separator before io.EOF. Before any other error it is
// incomplete and is not returned.
func (s *scanner) next() (rec []byte, size int, err error) {
	for {
		if s.whole() {
			rec, size = s.take(s.at)
			s.pos += s.sep
			s.seen, s.sep = s.pos, 0
			return rec, size, nil
		}
		if s.err == nil {
			s.fill()
			continue
		}
		if s.err != io.EOF || s.pos == s.end && s.dropped == 0 {
			return nil, 0, s.err
		}
		rec, size = s.take(s.end)
		return rec, size, nil
	}
}

// whole reports whether the record at pos has been read to its separator. It looks at
// no byte twice.
func (s *scanner) whole() bool {
	if s.sep == 0 {
		s.at, s.sep = s.find()
	}
	return s.sep > 0
}

// take returns the record that ends at buf[at], and moves there.
func (s *scanner) take(at int) ([]byte, int) {
	rec := s.buf[s.pos:at:at]
	size := s.dropped + len(rec)
	s.pos, s.seen, s.dropped = at, at, 0
	if size > s.max {
		return nil, size
	}
	return rec, size
}

// find returns where in buf the record at pos ends and how long its separator is.
// sep is 0 if that has not been read yet.
func (s *scanner) find() (at, sep int) {
	b := s.buf[s.seen:s.end]
	i, keep := -1, 0
	switch {
	case s.csv:
		i, sep = s.row.end(b), 1
	case len(s.delim) == 1:
		i, sep = bytes.IndexByte(b, s.delim[0]), 1
	default:
		i, sep = bytes.Index(b, s.delim), len(s.delim)
		keep = sep - 1 // these bytes may begin a separator
	}
	if i >= 0 {
		return s.seen + i, sep
	}
	s.seen = max(s.seen, s.end-keep)
	return 0, 0
}

// fill reads what is there. It makes room first: at the front of the buffer, in a
// larger one, or by dropping part of a record that is too long.
func (s *scanner) fill() {
	if s.pos == s.end {
		s.pos, s.seen, s.end = 0, 0, 0
	}
	if s.end == len(s.buf) {
		if s.pos == 0 {
			s.grow()
		}
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.seen -= s.pos
		s.pos = 0
	}
	n := 0
	n, s.err = readSome(s.rd, s.buf[s.end:])
	s.end += n
}

// readSome reads something, unless there is an error.
func readSome(rd io.Reader, p []byte) (n int, err error) {
	for range emptyReads {
		if n, err = rd.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// grow enlarges the buffer, or drops its content if a record cannot be that long.
func (s *scanner) grow() {
	most := s.max + max(len(s.delim), 1)
	if len(s.buf) < most {
		bigger := make([]byte, min(2*len(s.buf), most))
		copy(bigger, s.buf)
		s.buf = bigger
		return
	}
	s.dropped += s.seen
	s.pos = s.seen
}
