package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen is what a terminal shows. It knows the control sequences that bash, crew's bar
// and crew-top write; any other one is an error, so no picture is wrong unnoticed.
type screen struct {
	cells    [][]cell
	row, col int // of the cursor; col is the width after the last column was written
	hidden   bool
	look     look
	part     []byte  // a character or sequence of which the rest has not come
	main     *screen // as it was, while the alternate screen is shown
}

type cell struct {
	char rune
	look look
}

// look is how a character is shown. The colour is 30 to 37, or 0 for the default one.
type look struct {
	colour                        int
	bold, dim, underline, reverse bool
}

func newScreen(rows, cols int) *screen {
	s := &screen{cells: make([][]cell, rows)}
	for y := range s.cells {
		s.cells[y] = slices.Repeat([]cell{{char: ' '}}, cols)
	}
	return s
}

// clone returns a copy that later writes leave alone.
func (s *screen) clone() *screen {
	c := *s
	c.cells = nil
	for _, row := range s.cells {
		c.cells = append(c.cells, slices.Clone(row))
	}
	return &c
}

// String returns the lines, without blanks at their ends.
func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.cells {
		line := ""
		for _, c := range row {
			line += string(c.char)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// write shows what a program has written.
func (s *screen) write(out []byte) error {
	s.part = append(s.part, out...)
	for len(s.part) > 0 {
		n, err := s.next(s.part)
		if n == 0 || err != nil {
			return err
		}
		s.part = s.part[n:]
	}
	return nil
}

// next does what the first character or sequence of text says, and returns its length,
// which is 0 if the rest of it has not come.
func (s *screen) next(text []byte) (int, error) {
	switch c := text[0]; {
	case c == '\x1b':
		return s.sequence(text)
	case c == '\r':
		s.col = 0
	case c == '\n':
		s.down()
	case c == '\b':
		s.col = max(0, s.col-1)
	case c < ' ' || c == 0x7f:
		return 0, fmt.Errorf("unknown control character %q", c)
	case !utf8.FullRune(text):
		return 0, nil
	default:
		r, n := utf8.DecodeRune(text)
		if r >= 0x2e80 {
			return 0, fmt.Errorf("%q may be two columns wide", r)
		}
		s.put(r)
		return n, nil
	}
	return 1, nil
}

func (s *screen) put(r rune) {
	if s.col == len(s.cells[0]) {
		s.col = 0
		s.down()
	}
	s.cells[s.row][s.col] = cell{r, s.look}
	s.col++
}

func (s *screen) down() {
	if s.row++; s.row < len(s.cells) {
		return
	}
	s.row--
	s.cells = append(s.cells[1:], slices.Repeat([]cell{{char: ' '}}, len(s.cells[0])))
}

// ignored are sequences that change nothing that is seen here: keys, the mouse, a title
// that is kept and restored, character sets, and wrapping, as nothing writes beyond a line.
var ignored = []string{
	"\x1b(B", "\x1b=", "\x1b>", "\x1b[?1l", "\x1b[?1h", "\x1b[?7l", "\x1b[?7h", "\x1b[?12l", "\x1b[?1000l", "\x1b[?1002l",
	"\x1b[?1003l", "\x1b[?1004l", "\x1b[?1006l", "\x1b[?2004l", "\x1b[22;0;0t", "\x1b[23;0;0t", "\x1b]8;;\x1b\\",
}

func (s *screen) sequence(text []byte) (int, error) {
	for _, known := range ignored {
		if bytes.HasPrefix(text, []byte(known)) {
			return len(known), nil
		} else if bytes.HasPrefix([]byte(known), text) {
			return 0, nil
		}
	}
	n := 2 + bytes.IndexFunc(text[min(2, len(text)):], func(r rune) bool { return r >= '@' })
	switch {
	case len(text) == 1 || text[1] == '[' && n < 2:
		return 0, nil
	case text[1] != '[':
		return 0, fmt.Errorf("unknown sequence %q", text[:min(8, len(text))])
	}
	if arguments, final := string(text[2:n]), text[n]; !s.control(arguments, final) {
		return 0, fmt.Errorf("unknown sequence %q", text[:n+1])
	}
	return n + 1, nil
}

// control does what a control sequence says, and reports whether it is known.
func (s *screen) control(arguments string, final byte) bool {
	if final == 'h' || final == 'l' {
		return s.mode(arguments, final == 'h')
	}
	var numbers []int
	for word := range strings.SplitSeq(arguments, ";") {
		n, err := strconv.Atoi(word)
		if err != nil && word != "" {
			return false
		}
		numbers = append(numbers, n)
	}
	first := max(1, numbers[0])
	switch {
	case final == 'm':
		return !slices.ContainsFunc(numbers, func(n int) bool { return !s.look.set(n) })
	case final == 'H' && len(numbers) == 2:
		s.row, s.col = min(first, len(s.cells))-1, min(max(1, numbers[1]), len(s.cells[0]))-1
	case arguments == "" && final == 'H':
		s.row, s.col = 0, 0
	case len(numbers) > 1:
		return false
	case final == 'A':
		s.row = max(0, s.row-first)
	case final == 'C':
		s.col = min(s.col+first, len(s.cells[0])-1)
	case final == 'K' && arguments == "":
		s.erase(s.row, s.col)
	case final == 'J' && arguments == "":
		s.erase(s.row, s.col)
		for y := s.row + 1; y < len(s.cells); y++ {
			s.erase(y, 0)
		}
	case final == 'J' && arguments == "2":
		for y := range s.cells {
			s.erase(y, 0)
		}
	default:
		return false
	}
	return true
}

// erase blanks a line from a column on.
func (s *screen) erase(y, from int) {
	for x := from; x < len(s.cells[y]); x++ {
		s.cells[y][x] = cell{char: ' '}
	}
}

func (s *screen) mode(name string, on bool) bool {
	switch name {
	case "?25":
		s.hidden = !on
	case "?1049":
		if on {
			s.main = s.clone()
		} else {
			s.cells, s.row, s.col = s.main.cells, s.main.row, s.main.col
		}
	default:
		return false
	}
	return true
}

// set changes the look as an argument of SGR says, and reports whether it is known.
func (l *look) set(n int) bool {
	switch {
	case n == 0:
		*l = look{}
	case n == 1:
		l.bold = true
	case n == 2:
		l.dim = true
	case n == 4:
		l.underline = true
	case n == 7:
		l.reverse = true
	case 30 <= n && n <= 37:
		l.colour = n
	case n == 39:
		l.colour = 0
	case n != 49:
		return false
	}
	return true
}
