package sink

import (
	"bytes"
	"io"

	"crew/runner/task"
)

// piece is how much is gathered before it is written, and the largest output
// that is copied rather than streamed.
const piece = 64 << 10

// prefix is what goes before each line of a task in a slot.
func prefix(t *task.Task, slot int) string { return t.TagOn(slot) + "\t" }

// tagger writes lines with a prefix and passes them on about a piece at a time.
// A last line without newline gets one from end.
type tagger struct {
	w      io.Writer
	prefix string
	whole  bool   // a line is passed on whole, however long it is
	buf    []byte // not passed on yet
	inside bool   // the last byte taken was not the end of a line
	err    error  // the first of w; sticky
}

func (t *tagger) reset(w io.Writer, prefix string, whole bool) {
	*t = tagger{w: w, prefix: prefix, whole: whole, buf: t.buf[:0]}
}

// Write takes p.
func (t *tagger) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if !t.inside {
			t.buf = append(t.buf, t.prefix...)
		}
		i := bytes.IndexByte(p, '\n') + 1
		t.inside = i == 0
		if t.inside {
			i = len(p)
		}
		t.buf = append(t.buf, p[:i]...)
		p = p[i:]
		if len(t.buf) >= piece && !(t.whole && t.inside) {
			if t.flush(); t.err != nil {
				return 0, t.err
			}
		}
	}
	return n, nil
}

func (t *tagger) flush() {
	if t.err == nil && len(t.buf) > 0 {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
}

// end finishes the last line and passes on what is left.
func (t *tagger) end() error {
	if t.inside {
		t.buf = append(t.buf, '\n')
		t.inside = false
	}
	t.flush()
	return t.err
}
