package task

import "bytes"

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

// Uncoloured returns text without the escape sequences of ECMA-48 that colour it or
// move the cursor.
func Uncoloured(text []byte) []byte {
	plain, rest, found := bytes.Cut(text, []byte("\x1b"))
	if !found {
		return text
	}
	plain = bytes.Clone(plain)
	for found {
		if n := sequence(rest); n > 0 {
			rest = rest[n:]
		} else {
			plain = append(plain, '\x1b')
		}
		var before []byte
		before, rest, found = bytes.Cut(rest, []byte("\x1b"))
		plain = append(plain, before...)
	}
	return plain
}

// sequence returns how many bytes after an escape belong to its control sequence, or to
// its choice of a character set, which some terminals' reset begins with.
func sequence(p []byte) int {
	if len(p) > 1 && p[0] == '(' {
		return 2
	}
	if len(p) == 0 || p[0] != '[' {
		return 0
	}
	for i, c := range p[1:] {
		if c < ' ' || c > '~' {
			break
		}
		if c >= '@' {
			return i + 2
		}
	}
	return 0
}
