package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// line is a good line of a journal.
type line struct {
	at   int64  // where it begins
	n    int64  // how long it is
	body []byte // without its sum; valid until the next line
}

// Damage is what of a journal cannot be read though good records follow it. An
// end that cannot be read is none: it is what a crash leaves.
type Damage struct {
	Line, At int64 // where the first of it is: number from 1 and offset
	Lines    int64 // how many lines it is
	Before   int64 // good lines before the first of it
	After    int64 // good lines after that
}

// String says where the damage is and what is still good.
func (d Damage) String() string {
	which := "is"
	if d.Lines > 1 {
		which = fmt.Sprintf("and %d more are", d.Lines-1)
	}
	return fmt.Sprintf("line %d at byte %d %s damaged and left out; %d good before it, %d after",
		d.Line, d.At, which, d.Before, d.After)
}

// scanned is what scan has seen.
type scanned struct {
	end    int64 // where the last good line ends
	lines  int64 // good ones
	damage Damage
}

// scan calls visit with each good line of r, in order.
func scan(r io.Reader, visit func(line)) (scanned, error) {
	in := bufio.NewReaderSize(r, maxLine)
	var s scanned
	var at, number, bad int64
	var badAt, badLine int64 // the first of bad
	for {
		text, err := in.ReadSlice('\n')
		if len(text) == 0 && err == io.EOF {
			return s, nil
		}
		n := int64(len(text))
		for errors.Is(err, bufio.ErrBufferFull) {
			var more []byte
			more, err = in.ReadSlice('\n')
			n += int64(len(more))
			text = nil
		}
		if err != nil && err != io.EOF {
			return s, err
		}
		number++
		if body, ok := unseal(text); ok {
			if bad > 0 {
				if s.damage.Lines == 0 {
					s.damage = Damage{Line: badLine, At: badAt, Before: s.lines}
				}
				s.damage.Lines += bad
				bad = 0
			}
			s.lines++
			s.end = at + n
			if s.damage.Lines > 0 {
				s.damage.After = s.lines - s.damage.Before
			}
			visit(line{at: at, n: n, body: body})
		} else {
			if bad == 0 {
				badAt, badLine = at, number
			}
			bad++
		}
		at += n
	}
}
