package input

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseDelimiter undoes the escapes in a delimiter that a person typed:
// \n \t \r \a \b \f \v \\, \0 and other octal numbers of up to three digits, and
// \xHH. Any other text stands for itself; an empty one is an error.
func ParseDelimiter(s string) (string, error) {
	if s == "" {
		return "", errors.New("the delimiter is empty")
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		if rest[0] != '\\' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		c, n, ok := unescape(rest[1:])
		if !ok {
			return "", fmt.Errorf(`delimiter %s: unknown escape: there are \n \t \r \a \b \f \v \0 \NNN \xHH and \\`, s)
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
	if s == "" {
		return 0, 0, false
	}
	if i := strings.IndexByte(letters, s[0]); i >= 0 {
		return meant[i], 1, true
	}
	if s[0] == 'x' {
		if len(s) < 3 {
			return 0, 0, false
		}
		v, err := strconv.ParseUint(s[1:3], 16, 8)
		return byte(v), 3, err == nil
	}
	for n < len(s) && n < 3 && s[n] >= '0' && s[n] <= '7' {
		n++
	}
	v, err := strconv.ParseUint(s[:n], 8, 8)
	return byte(v), n, err == nil
}
