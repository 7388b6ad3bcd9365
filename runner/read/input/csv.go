package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// rowState is the state of the search for the newline outside quotes that ends a CSV row (RFC 4180).
// A quote has a meaning only at the start of a field, so that a stray quote spoils
// only its own row.
type rowState uint8

const (
	fieldStart rowState = iota
	bare                // in a field without quotes, or after the closing quote
	quoted
	quoteSeen // a quote inside quotes: the end of the field, or half of ""
	fileStart // at the start of the first field of a file, or within a byte order mark before it
)

// byteOrderMark may be at the start of a file.
const byteOrderMark = "\ufeff"

// findEnd returns the index in b of the newline that ends the row, or -1. Each call continues where
// the last one stopped.
func (s *rowState) findEnd(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); *s != quoted && n >= 0 && bytes.IndexByte(b[:n], '"') < 0 { // most rows
		*s = fieldStart
		return n
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case *s == quoted:
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				return -1
			}
			i += n
			*s = quoteSeen
		case *s == quoteSeen && c == '"':
			*s = quoted
		case c == '\n':
			*s = fieldStart
			return i
		case c == ',':
			*s = fieldStart
		case c == '"' && (*s == fieldStart || *s == fileStart):
			*s = quoted
		case *s == fileStart && strings.IndexByte(byteOrderMark, c) >= 0:
		default:
			*s = bare
		}
	}
	return -1
}

// splitRow returns the fields of a row, which has no line end.
func splitRow(row string) ([]string, error) {
	fields := make([]string, 0, 1+strings.Count(row, ","))
	for n := 1; ; n++ {
		if !strings.HasPrefix(row, `"`) {
			f, rest, more := strings.Cut(row, ",")
			if strings.Contains(f, `"`) {
				return fields, fmt.Errorf("a quote inside field %d, which does not begin with one", n)
			}
			fields = append(fields, f)
			if !more {
				return fields, nil
			}
			row = rest
			continue
		}
		f, rest, err := quotedField(row[1:])
		if err != nil {
			return fields, fmt.Errorf("%w %d", err, n)
		}
		fields = append(fields, f)
		if rest == "" {
			return fields, nil
		}
		if rest[0] != ',' {
			return fields, fmt.Errorf("text after the closing quote of field %d", n)
		}
		row = rest[1:]
	}
}

var errOpenQuote = errors.New("no closing quote in field")

// quotedField splits s, the text after an opening quote, at the closing quote.
func quotedField(s string) (field, rest string, err error) {
	for i := 0; ; i += len(`""`) {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return "", "", errOpenQuote
		}
		i += n
		if !strings.HasPrefix(s[i+1:], `"`) {
			return strings.ReplaceAll(s[:i], `""`, `"`), s[i+1:], nil
		}
	}
}
