package input

import (
	"bytes"
	"io"
)

const (
	bufferSize = 64 << 10
	emptyReads = 100 // as bufio: so many reads of nothing are an error
)

// scanner cuts what a reader gives into records. It reads only when it holds no
// whole record, and then what is there.
type scanner struct {
	// configuration

	delim []byte // what ends a record
	rows  *rows  // what knows where a row of CSV ends; nil goes by delim
	max   int    // bytes of a record

	// state: buf[pos:end] is unread, and no record ends in buf[pos:seen]

	rd             io.Reader
	err            error // what ended rd
	buf            []byte
	pos, seen, end int
	dropped        int // bytes of the record at pos that were let go because it is too long
}

// reset goes on with another reader. What was left of the one before is gone.
func (s *scanner) reset(rd io.Reader) {
	s.rd, s.err = rd, nil
	s.pos, s.seen, s.end, s.dropped = 0, 0, 0, 0
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
	if s.rows != nil {
		s.rows.reset()
	}
}

// next returns the next record without its separator, and its size. The bytes
// are valid until the next call; those of a record longer than max are nil.
// A last record needs no separator before io.EOF; before any other error it is
// a torn one and is not returned.
func (s *scanner) next() (rec []byte, size int, err error) {
	for {
		if at, sep := s.find(); at >= 0 {
			rec, size = s.take(at)
			s.pos += sep
			s.seen = s.pos
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

// take returns the record that ends at buf[at] and moves there.
func (s *scanner) take(at int) ([]byte, int) {
	rec := s.buf[s.pos:at:at]
	size := s.dropped + len(rec)
	s.pos, s.seen, s.dropped = at, at, 0
	if size > s.max {
		return nil, size
	}
	return rec, size
}

// find returns where in buf the record at pos ends and how long its separator
// is, or -1 where that has not been read yet.
func (s *scanner) find() (at, sep int) {
	b := s.buf[s.seen:s.end]
	i, keep := -1, 0
	switch {
	case s.rows != nil:
		i, sep = s.rows.end(b), 1
	case len(s.delim) == 1:
		i, sep = bytes.IndexByte(b, s.delim[0]), 1
	default:
		i, sep = bytes.Index(b, s.delim), len(s.delim)
		keep = sep - 1 // a separator may have begun
	}
	if i >= 0 {
		return s.seen + i, sep
	}
	s.seen = max(s.seen, s.end-keep)
	return -1, 0
}

// fill reads what is there, after making room: at the front of the buffer, in a
// larger one, or by letting go of a record that is too long.
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
	for range emptyReads {
		n, err := s.rd.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

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
