package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
)

// line is a good line of a journal.
type line struct {
	off, n int64    // its offset and length
	body   []byte   // valid until the next line
	event  []byte   // its name
	id     identity // of the task that it is about; zero for none
}

// scanned says what has been found in a journal.
type scanned struct {
	end     int64  // of the last good line
	damaged int64  // lines that cannot be read although good ones follow: a crash may leave some at the end
	first   string // which is the first of these
	err     error  // from reading
}

// damage says where there is damage; "" for nowhere.
func (s *scanned) damage() string {
	switch s.damaged {
	case 0:
		return ""
	case 1:
		return s.first + " is damaged and left out"
	}
	return fmt.Sprintf("%s and %d more are damaged and left out", s.first, s.damaged-1)
}

// readLen is how many bytes are read at once.
const readLen = 64 << 10

// lines iterates over the good lines of r, in order.
func (s *scanned) lines(r io.Reader) iter.Seq[line] {
	return func(yield func(line) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, readLen), MaxLine+1)
		in.Split(SplitLine)
		var off, damaged int64 // also at the end
		for number := 1; in.Scan(); number++ {
			n := int64(len(in.Bytes()))
			if body, ok := unseal(in.Bytes()); ok {
				s.damaged, s.end = damaged, off+n
				event, id := subject(body)
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

// SplitLine is a bufio.SplitFunc for lines with their newlines. It cuts a line that is
// longer than any good one.
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

// readRecord reads the record whose line begins at off. On error it is empty.
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

// readLine reads the line at off. At the end of f it has no newline.
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

// readHead reads the first line. Its checksum is verified last because another
// version may have another kind.
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
