package task

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The Append functions write JSON members in a fixed order, without reflection.
// Each member begins with a comma, so it cannot be the first of its object.

// AppendName appends the name of a member.
func AppendName(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

// AppendInt appends a number.
func AppendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(AppendName(b, name), n, 10)
}

// AppendTime appends a time as in RFC 3339, to the nanosecond.
func AppendTime(b []byte, name string, t time.Time) []byte {
	b = append(AppendName(b, name), '"')
	return append(t.AppendFormat(b, time.RFC3339Nano), '"')
}

// AppendTrue appends true.
func AppendTrue(b []byte, name string) []byte { return append(AppendName(b, name), "true"...) }

// AppendText appends text that need not be UTF-8.
func AppendText(b []byte, name, s string) []byte { return Bytes(s).Append(AppendName(b, name)) }

// AppendColumns appends the columns of a record as an array.
func AppendColumns(b []byte, columns []string) []byte {
	b = append(b, '[')
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = Bytes(c).Append(b)
	}
	return append(b, ']')
}

// AppendFields appends an object of the columns with names. Invalid UTF-8 in a name becomes U+FFFD. Of
// several columns with the same name it has the first, like {name}.
func AppendFields(b []byte, names, columns []string) []byte {
	open := len(b)
	for i, name := range names[:min(len(names), len(columns))] {
		if name != "" && slices.Index(names, name) == i {
			b = AppendJSON(append(b, `,"`...), strings.ToValidUTF8(name, "\ufffd"))
			b = Bytes(columns[i]).Append(append(b, `":`...))
		}
	}
	if len(b) == open {
		b = append(b, '{')
	}
	b[open] = '{' // in place of the comma
	return append(b, '}')
}

// AppendJSON appends p escaped for a JSON string, without the quotes (RFC 8259, section 7). It works
// on single bytes, so p may begin or end inside a character.
func AppendJSON[T string | []byte](b []byte, p T) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, p[from:i]...)
		from = i + 1
		switch {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case '\b' <= c && c <= '\r' && c != '\v':
			b = append(b, '\\', "btn fr"[c-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, p[from:]...)
}
