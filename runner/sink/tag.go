package sink

import (
	"bytes"
	"io"
)

// piece is how much is gathered before it is written, and the largest output
// that is copied rather than streamed.
const piece = 64 << 10

// tagger puts a prefix before each line and writes to w about a piece at a time.
type tagger struct {
	w      io.Writer
	prefix string
	whole  bool   // never cut a line, however long it is
	buf    []byte // not yet written to w
	inside bool   // the last byte was not the end of a line
	err    error  // the first error of w
}

// reset prepares t for a new stream.
func (t *tagger) reset(w io.Writer, prefix string, whole bool) {
	*t = tagger{w: w, prefix: prefix, whole: whole, buf: t.buf[:0]}
}

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

// end adds a newline to an unfinished last line and writes what is left.
func (t *tagger) end() error {
	if t.inside {
		t.buf = append(t.buf, '\n')
		t.inside = false
	}
	t.flush()
	return t.err
}
