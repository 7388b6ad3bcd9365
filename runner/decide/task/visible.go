package task

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// The forms in this file are for a terminal: they mean the same to a shell, but they
// contain no character that could control the terminal.

// VisibleLine is like CommandLine, for a terminal. Line breaks and tabs of a script stay unless they
// may come from the task's records.
func (t *Task) VisibleLine(argv []string) string {
	line := t.CommandLine(argv)
	hidden := IsHidden
	if own := t.Object == "" && !slices.ContainsFunc(t.Records, hasHidden); t.Shell && own {
		hidden = func(s string) bool { return IsHidden(strings.NewReplacer("\n", "", "\t", "").Replace(s)) }
	}
	if !hidden(line) {
		return line
	}
	return words(argv, VisibleQuote) + t.hereString(len(line), VisibleQuote) + t.redirection(VisibleQuote)
}

// VisibleQuote is like Quote, for a terminal: text with unprintable characters becomes the output of
// printf(1), which every POSIX shell knows, unlike $'…'. Line breaks at the end stay, since a command
// substitution would drop them.
func VisibleQuote(s string) string {
	body := strings.TrimRight(s, "\n")
	breaks := s[len(body):]
	switch {
	case !IsHidden(s):
		return Quote(s)
	case body == "":
		return Quote(breaks)
	case breaks != "":
		breaks = Quote(breaks)
	}
	return `"$(printf ` + PrintfFormat(body) + `)"` + breaks
}

// PrintfFormat returns a shell word that makes printf(1) print s.
func PrintfFormat(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		c := rest[:n]
		rest = rest[n:]
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '%':
			b.WriteString("%%")
		case r == '-' && b.Len() == 0, r == '\\', r == '\'', r == '!', IsHidden(c): // an interactive shell may expand ! in the word
			for i := range n {
				fmt.Fprintf(&b, `\%03o`, c[i])
			}
		default:
			b.WriteString(c)
		}
	}
	return "'" + b.String() + "'"
}

// IsHidden reports whether s has a byte or character that a terminal does not show as itself.
func IsHidden(s string) bool { return strings.Contains(s, "\t") || Printable(s) != s }

func hasHidden(columns []string) bool { return slices.ContainsFunc(columns, IsHidden) }

const (
	tailBytes = 4 << 10 // the last lines are searched in this much of an output
	tailWidth = 160     // most bytes of a shown line
)

// OutputTail returns the end of an attempt's stderr or, if that is blank, of its stdout. If the outputs
// were not kept, it returns r.Tail.
func (r *Result) OutputTail() (tail []byte, err error) {
	for _, o := range [...]Output{r.Stderr, r.Stdout} {
		if o == nil {
			continue
		}
		if tail, err = Tail(o, tailBytes); err != nil || len(LastLines(tail, 1)) > 0 {
			return tail, err
		}
	}
	return r.Tail, nil
}

// LastLines returns the last n lines of tail that are not empty, shortened, without colours and safe
// for a terminal.
func LastLines(tail []byte, n int) []string {
	var lines []string
	for l := range bytes.SplitSeq(Uncoloured(tail), []byte("\n")) {
		if l = bytes.TrimRight(l, "\r \t"); len(l) > 0 {
			lines = append(lines, string(l))
		}
	}
	lines = lines[max(0, len(lines)-n):]
	for i, l := range lines {
		lines[i] = Printable(Shorten(l, tailWidth))
	}
	return lines
}

// escapes matches the control sequences of ECMA-48 that colour text or move the cursor, and the
// selection of a character set, which begins the reset sequence of some terminals.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b(?:\[[ -?]*[@-~]|\((?s:.))`) })

// Uncoloured returns text without escape sequences.
func Uncoloured(text []byte) []byte {
	if bytes.IndexByte(text, '\x1b') < 0 {
		return text
	}
	return escapes().ReplaceAllLiteral(text, nil)
}
