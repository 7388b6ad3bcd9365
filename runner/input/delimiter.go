package input

import (
	"errors"
	"strconv"
	"strings"
)

var errDelimiter = errors.New(`write one or more bytes; \n, \t, \0, \\ and \xHH are known`)

// ParseDelimiter undoes the escapes in a delimiter that a person typed:
// \n \t \r \a \b \f \v \\, \0 and other octal numbers of up to three digits, and
// \xHH. A backslash at the end and any other text stand for themselves. The
// error of an empty one, or of an unknown escape, says what to write.
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

// unescape reads what follows a backslash: the byte meant and the number of
// bytes that say so.
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
