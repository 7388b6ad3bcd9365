package input

import (
	"bufio"
	"bytes"
	"io"
)

const bufferSize = 64 << 10

// scanner splits the bytes of a reader into records. It reads only if it holds no whole record,
// and then takes the bytes that are available.
type scanner struct {
	// configuration

	delim []byte // ends a record; with csv only outside of quotes
	csv   bool
	max   int // size of the largest record in bytes

	// state

	rd   *bufio.Reader // nil at first
	err  error         // the error that ended rd
	row  rowState
	long []byte // the beginning of a record that does not fit into the buffer
}

// reset makes s read from rd. It drops the rest of the last reader.
func (s *scanner) reset(rd io.Reader) {
	if s.rd == nil {
		s.rd = bufio.NewReaderSize(rd, bufferSize)
	}
	s.rd.Reset(rd)
	s.err, s.row = nil, fileStart
}

// next returns the next record without its separator, and its size. The bytes are valid until
// the next call; if the record is longer than max, they are incomplete. At io.EOF, the last record
// needs no separator. At any other error, an incomplete record is dropped.
func (s *scanner) next() (rec []byte, size int, err error) {
	s.long = s.long[:0]
	sep := len(s.delim)
	for s.err == nil {
		rec, err = s.rd.ReadSlice(s.delim[sep-1])
		size += len(rec)
		ended := s.csv && s.row.findEnd(rec) >= 0
		if len(s.long) > 0 {
			s.long = append(s.long, rec...)
			rec = s.long
		}
		if ended || !s.csv && bytes.HasSuffix(rec, s.delim) {
			return rec[:len(rec)-sep], size - sep, nil
		}
		if len(s.long) == 0 {
			s.long = append(s.long, rec...)
		}
		if size > s.max+sep { // keep the last bytes: they may begin the separator
			s.long = append(s.long[:0], s.long[max(0, len(s.long)-sep):]...)
		}
		if err != bufio.ErrBufferFull {
			s.err = err
		}
	}
	if s.err != io.EOF || size == 0 {
		return nil, 0, s.err
	}
	return s.long, size, nil
}

// buffered returns the record that next will return if all of it, up to its separator, is in the
// buffer. Otherwise ok is false.
func (s *scanner) buffered() (rec []byte, ok bool) {
	b, _ := s.rd.Peek(s.rd.Buffered())
	at, row := bytes.Index(b, s.delim), s.row
	if s.csv {
		at = row.findEnd(b)
	}
	return b[:max(at, 0)], at >= 0
}
