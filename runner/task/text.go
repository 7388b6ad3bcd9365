package task

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns s as one word of a POSIX shell: unchanged if it needs no quoting,
// otherwise in single quotes. s may contain any byte but NUL.
func Quote(s string) string {
	if s != "" && strings.IndexFunc(s, needsQuote) < 0 && s[0] != '~' && s[0] != '=' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func needsQuote(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("%+,-./:=@_", r)
}

// CommandLine returns argv, a form of t.Argv, as a person would type it: the script
// if crew put it into a shell, otherwise the quoted words.
func (t *Task) CommandLine(argv []string) string {
	if t.Shell && len(argv) > 0 {
		return argv[len(argv)-1]
	}
	words := make([]string, len(argv))
	for i, w := range argv {
		if words[i] = Quote(w); i == 0 && words[i] == w && strings.Contains(w, "=") {
			words[i] = "'" + w + "'" // not an assignment
		}
	}
	return strings.Join(words, " ")
}

// Shorten cuts s after at most n bytes, between characters, and adds an ellipsis if
// anything was cut.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n] + "…"
}

// Printable returns s with escapes for invalid bytes and for all characters that
// could break the line or change the terminal. Tabs stay.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		if unprintable(r) || !utf8.ValidString(c) {
			c = strconv.Quote(c)
			c = c[1 : len(c)-1]
		}
		b.WriteString(c)
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }
