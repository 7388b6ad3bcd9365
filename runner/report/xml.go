package report

import (
	"bufio"
	"slices"
	"unicode/utf8"
)

// xmlText is an io.Writer that writes characters as XML text, or as the value of an
// attribute. Bytes that are not UTF-8 and characters that XML 1.0 cannot hold (section
// 2.2) become U+FFFD. Writes may cut characters anywhere; end finishes the last one.
type xmlText struct {
	w         *bufio.Writer
	attribute bool
	cut       []byte // the start of a character
}

// Write always takes all of p: the bufio.Writer keeps its error.
func (x *xmlText) Write(p []byte) (int, error) {
	n := len(p)
	if len(x.cut) > 0 {
		p = slices.Concat(x.cut, p)
	}
	from, at := 0, 0
	for at < len(p) && (p[at] < utf8.RuneSelf || utf8.FullRune(p[at:])) {
		r, size := utf8.DecodeRune(p[at:])
		if text, plain := x.escape(r, size); !plain {
			x.w.Write(p[from:at])
			x.w.WriteString(text)
			from = at + size
		}
		at += size
	}
	x.w.Write(p[from:at])
	x.cut = append(x.cut[:0], p[at:]...)
	return n, nil
}

func (x *xmlText) end() {
	if len(x.cut) > 0 {
		x.w.WriteRune(utf8.RuneError)
		x.cut = x.cut[:0]
	}
}

// escape returns what stands for r, of so many bytes, unless it is plain.
func (x *xmlText) escape(r rune, size int) (text string, plain bool) {
	switch {
	case r == '&':
		return "&amp;", false
	case r == '<':
		return "&lt;", false
	case r == '>': // for "]]>"
		return "&gt;", false
	case r == '\r':
		return "&#13;", false // or it would be read as a newline
	case x.attribute && r == '"':
		return "&quot;", false
	case x.attribute && r == '\t':
		return "&#9;", false
	case x.attribute && r == '\n':
		return "&#10;", false
	case r < ' ' && r != '\t' && r != '\n', r == utf8.RuneError && size == 1, r == 0xFFFE, r == 0xFFFF:
		return "\uFFFD", false
	}
	return "", true
}
