package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// line is a good line of a journal.
type line struct {
	off, n int64  // its offset and length
	body   []byte // valid until the next line
}

// Damage describes lines that cannot be read although good lines follow. Damage at
// the end of a journal is not counted: a crash may leave it.
type Damage struct {
	Line, At int64 // number, from 1, and offset of the first damaged line
	Lines    int64 // number of damaged lines
	Before   int64 // good lines before the first damaged one
	After    int64 // good lines after it
}

// String says where the damage is and how much is still good.
func (d Damage) String() string {
	which := "is"
	if d.Lines > 1 {
		which = fmt.Sprintf("and %d more are", d.Lines-1)
	}
	return fmt.Sprintf("line %d at byte %d %s damaged and left out; %d good before it, %d after",
		d.Line, d.At, which, d.Before, d.After)
}

type scanned struct {
	end    int64 // of the last good line
	damage Damage
}

// scan calls visit with each good line of r, in order.
func scan(r io.Reader, visit func(line)) (s scanned, err error) {
	in := lineReader{Reader: bufio.NewReaderSize(r, usualMost)}
	var off, good int64
	var damage Damage // also at the end
	for number := int64(1); ; number++ {
		text, n, err := in.next()
		if n == 0 && err == io.EOF {
			return s, nil
		}
		if err != nil && err != io.EOF {
			return s, err
		}
		if body, ok := unseal(text); ok {
			good++
			if damage.Lines > 0 {
				damage.After = good - damage.Before
			}
			s.damage, s.end = damage, off+n
			visit(line{off, n, body})
		} else {
			if damage.Lines == 0 {
				damage = Damage{Line: number, At: off, Before: good}
			}
			damage.Lines++
		}
		off += n
	}
}

// lineReader reads lines. Those that exceed its buffer are copied.
type lineReader struct {
	*bufio.Reader
	long []byte
}

// usualMost is the length that lines of a run have at most. Lines of a queue can be
// longer.
const usualMost = 256 << 10

// next returns the next line, which is valid until the one after it is read, and its
// length. The text of a line that exceeds maxLine is missing.
func (l *lineReader) next() (text []byte, n int64, err error) {
	text, err = l.ReadSlice('\n')
	n = int64(len(text))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, n, err
	}
	l.long = append(l.long[:0], text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = l.ReadSlice('\n')
		if n += int64(len(text)); n <= maxLine {
			l.long = append(l.long, text...)
		}
	}
	if n > maxLine {
		return nil, n, err
	}
	return l.long, n, err
}

// readRecord reads the record whose line begins at off. n is the line's length.
func readRecord(f io.ReaderAt, off int64) (r *record, n int64, err error) {
	text, err := readLine(f, off)
	if err != nil {
		return nil, 0, fmt.Errorf("its record cannot be read: %w", err)
	}
	r, err = parseLine(text)
	return r, int64(len(text)), err
}

// parseLine parses a line after verifying its checksum.
func parseLine(text []byte) (*record, error) {
	body, ok := unseal(text)
	if !ok {
		return nil, errDamagedRecord
	}
	return parse(body)
}

// readLine reads the line at off. At the end of f it has no newline.
func readLine(f io.ReaderAt, off int64) ([]byte, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, off, maxLine), 1<<10)
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
