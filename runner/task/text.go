package task

import "unicode/utf8"

// Shorten returns s where it has at most n bytes, else its beginning with an
// ellipsis. No character is cut.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n] + "…"
}

// AppendString appends s as a JSON string, with U+FFFD for each byte that is
// not UTF-8.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	if utf8.ValidString(s) {
		b = AppendJSON(b, s)
		return append(b, '"')
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = utf8.AppendRune(b, utf8.RuneError)
		} else {
			b = AppendJSON(b, s[i:i+n])
		}
		i += n
	}
	return append(b, '"')
}

// AppendJSON appends the inside of a JSON string (RFC 8259, section 7). It looks
// at bytes alone, so p may begin or end inside of a character.
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
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, p[from:]...)
}
