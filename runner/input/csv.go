package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// rows finds where rows of CSV (RFC 4180) end: at a newline that is not inside
// quotes. It takes the bytes in pieces. A quote opens only at the start of a
// field, so that a stray one spoils its own row alone.
type rows struct {
	state rowState
}

type rowState uint8

const (
	fieldStart rowState = iota
	bare                // in a field without quotes, or past the closing quote
	quoted
	quoteSeen // a quote inside quotes: the end of the field, or half of ""
)

func (r *rows) reset() { r.state = fieldStart }

// end returns the place in b of the newline that ends the row, or -1. It must
// be given the bytes after those once, and then the next row's.
func (r *rows) end(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case r.state == quoted:
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				return -1
			}
			i += n
			r.state = quoteSeen
		case r.state == quoteSeen && c == '"':
			r.state = quoted
		case c == '\n':
			r.state = fieldStart
			return i
		case c == ',':
			r.state = fieldStart
		case c == '"' && r.state == fieldStart:
			r.state = quoted
		default:
			r.state = bare
		}
	}
	return -1
}

// fields appends the fields of one row, without its line end, to dst. They are
// parts of the row but where a doubled quote had to be undone.
func fields(dst []string, row string) ([]string, error) {
	for n := 1; ; n++ {
		if !strings.HasPrefix(row, `"`) {
			f, rest, more := strings.Cut(row, ",")
			if strings.Contains(f, `"`) {
				return dst, fmt.Errorf("a quote inside field %d, which does not begin with one", n)
			}
			dst = append(dst, f)
			if !more {
				return dst, nil
			}
			row = rest
			continue
		}
		f, rest, err := quotedField(row[1:])
		if err != nil {
			return dst, fmt.Errorf("%w %d", err, n)
		}
		dst = append(dst, f)
		if rest == "" {
			return dst, nil
		}
		if rest[0] != ',' {
			return dst, fmt.Errorf("text after the closing quote of field %d", n)
		}
		row = rest[1:]
	}
}

var errOpenQuote = errors.New("no closing quote in field")

// quotedField cuts s, which stands after an opening quote, at the closing one.
func quotedField(s string) (field, rest string, err error) {
	doubled := false
	for i := 0; ; {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return "", "", errOpenQuote
		}
		i += n
		if i+1 < len(s) && s[i+1] == '"' {
			doubled = true
			i += 2
			continue
		}
		field, rest = s[:i], s[i+1:]
		if doubled {
			field = strings.ReplaceAll(field, `""`, `"`)
		}
		return field, rest, nil
	}
}
