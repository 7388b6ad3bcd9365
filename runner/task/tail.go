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

// LastLines returns the last n non-empty lines of tail, shortened and harmless.
func LastLines(tail []byte, n int) []string {
	var lines []string
	for l := range bytes.SplitSeq(tail, []byte("\n")) {
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
