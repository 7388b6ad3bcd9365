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
