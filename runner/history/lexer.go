package history

import (
	"bufio"
	"encoding/base64"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"crew/runner/task"
)

const (
	// maxValue is how many bytes a value or a row may have; one that is longer is damaged.
	// Outputs have no limit.
	maxValue = 64 << 20
	// tailBytes is how much of the end of an output is kept.
	tailBytes = 8 << 10
	maxName   = 64 // bytes of the name of a member; none that is known is longer
)

// lexer reads JSON objects of a line each (RFC 8259). It holds no line as a whole, as one
// with outputs can be of any size. Once a line turns out to be damaged, bad is set, and all
// methods return zero until the next line.
type lexer struct {
	in    *bufio.Reader
	bad   bool
	ended error  // from reading
	text  []byte // the latest value, valid until the next one
}

// next returns the next byte of the line.
func (l *lexer) next() byte {
	if l.bad {
		return 0
	}
	c, err := l.in.ReadByte()
	switch {
	case err != nil:
		l.bad, l.ended = true, err
		return 0
	case c == '\n':
		_ = l.in.UnreadByte()
		l.bad = true
		return 0
	}
	return c
}

// peek returns the next byte of the line without taking it; 0 at its end.
func (l *lexer) peek() byte {
	p, err := l.in.Peek(1)
	if l.bad || err != nil || p[0] == '\n' {
		return 0
	}
	return p[0]
}

// token returns the next byte that is no space, without taking it.
func (l *lexer) token() byte {
	for {
		switch c := l.peek(); c {
		case ' ', '\t', '\r':
			l.next()
		default:
			return c
		}
	}
}

// take takes the next byte that is no space, which must be c.
func (l *lexer) take(c byte) {
	if l.token() != c {
		l.bad = true
	}
	l.next()
}

// list reads the elements of an object or an array, between its brackets. element has to
// read one.
func (l *lexer) list(open, end byte, element func()) {
	l.take(open)
	for first := true; !l.bad; first = false {
		if l.token() == end {
			l.next()
			return
		}
		if !first {
			l.take(',')
		}
		if element(); l.token() != end && l.token() != ',' {
			l.bad = true
		}
	}
}

// object reads an object. member has to read the value of the member called name, which is
// valid until then.
func (l *lexer) object(member func(name []byte)) {
	l.list('{', '}', func() {
		l.token()
		name := l.end(maxName)
		l.take(':')
		if l.token(); !l.bad {
			member(name)
		}
	})
}

// raw returns the JSON text of a value, as far as its brackets and quotes show it.
func (l *lexer) raw() []byte {
	l.text = l.text[:0]
	l.token()
	for depth, quoted := 0, false; !l.bad; {
		c := l.next()
		l.text = append(l.text, c)
		switch {
		case quoted && c == '\\':
			l.text = append(l.text, l.next())
		case c == '"':
			quoted = !quoted
		case quoted:
			l.plain()
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if l.bad = l.bad || depth < 0 || len(l.text) > maxValue; quoted || depth > 0 {
			continue
		}
		switch l.peek() {
		case ',', '}', ']', ' ', '\t', '\r', 0:
			if !l.bad {
				return l.text
			}
		}
	}
	return nil
}

// plain takes the part of a string that comes before its end or an escape, as far as it is
// in the buffer.
func (l *lexer) plain() {
	p, _ := l.in.Peek(l.in.Buffered())
	i := 0
	for i < len(p) && p[i] >= ' ' && p[i] != '"' && p[i] != '\\' {
		i++
	}
	l.text = append(l.text, p[:i]...)
	_, _ = l.in.Discard(i)
}

// end returns the last n bytes of a string, at most.
func (l *lexer) end(n int) []byte {
	l.text = l.text[:0]
	l.take('"')
	for !l.bad {
		if l.plain(); len(l.text) > 2*n {
			l.text = append(l.text[:0], l.text[len(l.text)-n:]...)
		}
		switch c := l.next(); {
		case c == '"':
			l.text = l.text[max(0, len(l.text)-n):]
			return l.text
		case c == '\\':
			l.escape()
		case c < ' ':
			l.bad = true
		default:
			l.text = append(l.text, c) // the first one of a new buffer
		}
	}
	return nil
}

// escape takes what follows a backslash.
func (l *lexer) escape() {
	switch c := l.next(); c {
	case '"', '\\', '/':
		l.text = append(l.text, c)
	case 'b':
		l.text = append(l.text, '\b')
	case 'f':
		l.text = append(l.text, '\f')
	case 'n':
		l.text = append(l.text, '\n')
	case 'r':
		l.text = append(l.text, '\r')
	case 't':
		l.text = append(l.text, '\t')
	case 'u':
		r := l.unit()
		if p, _ := l.in.Peek(2); utf16.IsSurrogate(r) && string(p) == `\u` {
			_, _ = l.in.Discard(2)
			r = utf16.DecodeRune(r, l.unit())
		}
		l.text = utf8.AppendRune(l.text, r)
	default:
		l.bad = true
	}
}

// unit takes four hex digits.
func (l *lexer) unit() rune {
	n, err := strconv.ParseUint(string([]byte{l.next(), l.next(), l.next(), l.next()}), 16, 16)
	l.bad = l.bad || err != nil
	return rune(n)
}

// tail returns the end of an output, which is written as task.Bytes are. It is not nil.
func (l *lexer) tail() (tail []byte) {
	if l.token() != '{' {
		return append([]byte{}, l.end(tailBytes)...)
	}
	l.object(func(name []byte) {
		if string(name) != "base64" {
			l.bad = true
			return
		}
		// The whole is a multiple of four characters, and so is this end of it.
		text, err := base64.StdEncoding.AppendDecode(nil, l.end(base64.StdEncoding.EncodedLen(tailBytes)))
		tail, l.bad = text[max(0, len(text)-tailBytes):], l.bad || err != nil
	})
	return tail
}

// endLine goes on to the next line. It reports whether this one was whole: a last one
// without newline may be, but need not, as a run may be writing it.
func (l *lexer) endLine() (whole bool) {
	whole = !l.bad && l.token() == 0
	for l.ended == nil {
		_, err := l.in.ReadSlice('\n')
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			l.ended = err
		}
	}
	l.bad = false
	return whole
}

// over reports whether there is nothing more to be read.
func (l *lexer) over() bool { return l.ended != nil }

// failure returns the error with which reading ended; nil at the end of the file.
func (l *lexer) failure() error {
	if l.ended == io.EOF {
		return nil
	}
	return l.ended
}

// bytes returns a value that is written as task.Bytes are.
func (l *lexer) bytes() (s task.Bytes) {
	l.bad = s.UnmarshalJSON(l.raw()) != nil || l.bad
	return s
}
