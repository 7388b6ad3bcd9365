package task

import (
	"bytes"
	"regexp"
	"sync"
)

const (
	tailBytes = 4 << 10 // in which the last lines of an output are looked for
	tailWidth = 160     // bytes of a line that are shown
)

// OutputTail returns the end of an attempt's stderr or, if there is nothing to see, of
// its stdout.
func (r *Result) OutputTail() (tail []byte, err error) {
	for _, o := range [...]Output{r.Stderr, r.Stdout} {
		if o == nil {
			continue
		}
		if tail, err = o.Tail(tailBytes); err != nil || len(LastLines(tail, 1)) > 0 {
			return tail, err
		}
	}
	return r.Tail, nil
}

// LastLines returns the last n non-empty lines of tail, shortened, uncoloured and
// harmless.
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

// escapes matches the control sequences of ECMA-48 that colour text or move the cursor, and
// the choice of a character set, which some terminals' reset begins with.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b(?:\[[ -?]*[@-~]|\((?s:.))`) })

// Uncoloured returns text without escapes.
func Uncoloured(text []byte) []byte {
	if bytes.IndexByte(text, '\x1b') < 0 {
		return text
	}
	return escapes().ReplaceAllLiteral(text, nil)
}
