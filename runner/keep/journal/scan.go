package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
)

// line is a valid line of a journal.
type line struct {
	off, n int64    // offset and length
	body   []byte   // valid until the next line
	event  []byte   // its name
	id     identity // identity of its task, or zero
}

// scanner iterates over the lines of a journal and notes damaged ones.
type scanner struct {
	end     int64  // offset after the last valid line
	damaged int64  // number of invalid lines before the last valid one; a crash may leave others at the end
	first   string // description of the first damaged line
	err     error  // read error
}

// damage returns a description of the damaged lines, or "".
func (s *scanner) damage() string {
	switch s.damaged {
	case 0:
		return ""
	case 1:
		return s.first + " is damaged and left out"
	}
	return fmt.Sprintf("%s and %d more are damaged and left out", s.first, s.damaged-1)
}

// readLen is the initial size of the read buffer.
const readLen = 64 << 10

// lines iterates over the valid lines of r, in order.
func (s *scanner) lines(r io.Reader) iter.Seq[line] {
	return func(yield func(line) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, readLen), MaxLine+1)
		in.Split(SplitLine)
		var off, damaged int64 // including lines at the end
		for number := 1; in.Scan(); number++ {
			n := int64(len(in.Bytes()))
			if body, ok := unseal(in.Bytes()); ok {
				s.damaged, s.end = damaged, off+n
				event, id := parseEvent(body)
				if !yield(line{off, n, body, event, id}) {
					return
				}
			} else if damaged++; damaged == 1 {
				s.first = fmt.Sprintf("line %d at byte %d", number, off)
			}
			off += n
		}
		s.err = in.Err()
	}
}

// SplitLine is a bufio.SplitFunc for lines including their newlines. It splits a line that is
// longer than MaxLine.
func SplitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 && (atEOF || len(data) >= MaxLine) {
		n = len(data)
	}
	if n == 0 {
		return 0, nil, nil
	}
	return n, data[:n], nil
}

// readRecord reads the record at offset off. On error it returns an empty record.
func readRecord(f io.ReaderAt, off int64) (*record, error) {
	text, err := readLine(f, off)
	if err != nil {
		return &record{}, fmt.Errorf("its record cannot be read: %w", err)
	}
	body, ok := unseal(text)
	if !ok {
		return &record{}, errDamagedRecord
	}
	return parse(body)
}

// readLine reads the line at offset off. The newline is missing at the end of the file.
func readLine(f io.ReaderAt, off int64) ([]byte, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, off, MaxLine), 1<<10)
	text, err := in.ReadBytes('\n')
	if err == io.EOF {
		err = nil
	}
	return text, err
}

// headError says why the first line of a journal is not accepted.
type headError struct{ text string }

func (e *headError) Error() string { return e.text }

// readHead reads the first line. It verifies the checksum last, because another version of the
// format may have another kind of checksum.
func readHead(f io.ReaderAt, path string) (*record, error) {
	first, err := readLine(f, 0)
	if err != nil {
		return nil, err
	}
	r, err := parse(bytes.TrimSuffix(first, []byte("}\n")))
	if err == nil && r.Event == evJournal && r.Version != 0 && r.Version != version {
		return nil, &headError{fmt.Sprintf("%s has format %d, but this crew knows only format %d: "+
			"use the crew that wrote it, or start over with --state-reset", path, r.Version, version)}
	}
	if _, ok := unseal(first); err != nil || !ok || r.Event != evJournal || r.Version != version {
		return nil, &headError{path + " is not a journal, or its first line is damaged: start over with --state-reset"}
	}
	return r, nil
}
