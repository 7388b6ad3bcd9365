package input

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// splitter splits the text of a record into columns.
type splitter struct {
	re      *regexp.Regexp // nil means one column
	literal string         // the text that re matches, if it is plain text and needs no regexp engine
	csv     bool
	scratch []string
}

func newSplitter(f Format) splitter {
	sp := splitter{re: f.Colsep, csv: f.Kind == CSV}
	if sp.re != nil {
		if lit, whole := sp.re.LiteralPrefix(); whole {
			sp.literal = lit
		}
	}
	return sp
}

// columns splits text into one or more columns, which it stores in sl.
func (sp *splitter) columns(text string, sl *slab) ([]string, error) {
	switch {
	case sp.csv:
		var err error
		sp.scratch, err = fields(sp.scratch[:0], text)
		if err != nil {
			return nil, err
		}
		cols := sl.columns(len(sp.scratch))
		copy(cols, sp.scratch)
		return cols, nil
	case sp.literal != "":
		cols := sl.columns(strings.Count(text, sp.literal) + 1)
		for i := range cols {
			cols[i], text, _ = strings.Cut(text, sp.literal)
		}
		return cols, nil
	case sp.re != nil:
		return sp.re.Split(text, -1), nil
	}
	cols := sl.columns(1)
	cols[0] = text
	return cols, nil
}

const (
	slabText    = 16 << 10
	slabColumns = 256
)

// slab allocates strings and slices of strings from larger chunks, so that a short
// record needs no allocation of its own. A chunk lives as long as any part of it,
// so chunks are small.
type slab struct {
	text strings.Builder
	cols []string
}

// string returns a copy of b.
func (sl *slab) string(b []byte) string {
	if len(b) > slabText/8 {
		return string(b)
	}
	if sl.text.Cap()-sl.text.Len() < len(b) {
		sl.text.Reset()
		sl.text.Grow(slabText)
	}
	from := sl.text.Len()
	sl.text.Write(b)
	return sl.text.String()[from:]
}

// columns returns a slice of n empty strings.
func (sl *slab) columns(n int) []string {
	if cap(sl.cols)-len(sl.cols) < n {
		sl.cols = make([]string, 0, max(n, slabColumns))
	}
	from := len(sl.cols)
	sl.cols = sl.cols[:from+n]
	return sl.cols[from : from+n : from+n]
}

// ParseColsep compiles a column separator, a regular expression as in package
// regexp. One that matches the empty string is an error, since it would split
// between any two bytes. Errors say what is wrong or what to write.
func ParseColsep(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			err = errors.New(bad.Code.String()) // without the expression, which may have several lines
		}
		return nil, err
	}
	if re.MatchString("") {
		return nil, errors.New(`write a pattern that matches at least one byte, such as , or \| or ' +'`)
	}
	return re, nil
}

var errDelimiter = errors.New(`write one or more bytes; \n, \t, \0, \\ and \xHH are known`)

// ParseDelimiter interprets the escapes in a delimiter typed by a person:
// \n \t \r \a \b \f \v \\, octal numbers of up to three digits such as \0, and
// \xHH. A backslash at the end and all other text stand for themselves. An empty
// delimiter and an unknown escape are errors, which say what to write.
func ParseDelimiter(s string) (string, error) {
	if s == "" {
		return "", errDelimiter
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		if rest[0] != '\\' || rest == `\` {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		c, n, ok := unescape(rest[1:])
		if !ok {
			return "", errDelimiter
		}
		b.WriteByte(c)
		rest = rest[1+n:]
	}
	return b.String(), nil
}

// unescape reads what follows a backslash. It returns the byte meant, and how many
// bytes of s it has read.
func unescape(s string) (c byte, n int, ok bool) {
	const letters, meant = `\abfnrtv`, "\\\a\b\f\n\r\t\v"
	if i := strings.IndexByte(letters, s[0]); i >= 0 {
		return meant[i], 1, true
	}
	digits, from, most, base := "01234567", 0, 3, 8
	if s[0] == 'x' {
		digits, from, most, base = "0123456789abcdefABCDEF", 1, 3, 16
	}
	for n = from; n < len(s) && n < most && strings.IndexByte(digits, s[n]) >= 0; {
		n++
	}
	v, err := strconv.ParseUint(s[from:n], base, 8)
	return byte(v), n, err == nil
}
