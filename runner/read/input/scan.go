package input

import (
	"bufio"
	"bytes"
	"io"
)

const bufferSize = 64 << 10

// scanner splits the bytes of a reader into records. It reads only when it holds
// no whole record, and then takes what is there.
type scanner struct {
	// configuration

	delim []byte // ends a record; with csv only outside of quotes
	csv   bool
	max   int // bytes of a record

	// state

	rd   *bufio.Reader // nil at first
	err  error         // ended rd
	row  rowState
	long []byte // the record as far as it has been read, if the buffer did not have all of it
}

// reset continues with another reader. It drops what is left of the last one.
func (s *scanner) reset(rd io.Reader) {
	if s.rd == nil {
		s.rd = bufio.NewReaderSize(rd, bufferSize)
	}
	s.rd.Reset(rd)
	s.err, s.row = nil, fileStart
}

// next returns the next record without its separator, and its size. The bytes are
// valid until the next call; of a record longer than max they are only some. The
// last record needs no separator before io.EOF. Before any other error it is
// incomplete and is not returned.
func (s *scanner) next() (rec []byte, size int, err error) {
	s.long = s.long[:0]
	sep := len(s.delim)
	for s.err == nil {
		rec, err = s.rd.ReadSlice(s.delim[sep-1])
		size += len(rec)
		ended := s.csv && s.row.end(rec) >= 0
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
		if size > s.max+sep { // the last bytes may begin the separator
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

// buffered returns the record that next returns. ok is false if it is not known that this
// has been read to its separator.
func (s *scanner) buffered() (rec []byte, ok bool) {
	b, _ := s.rd.Peek(s.rd.Buffered())
	at, row := bytes.Index(b, s.delim), s.row
	if s.csv {
		at = row.end(b)
	}
	return b[:max(at, 0)], at >= 0
}
