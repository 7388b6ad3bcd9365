package sink

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"sync"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// longLine is how much of an unfinished line is kept in memory. A longer one
	// goes to the spool.
	longLine = 64 << 10
	// keepLine is the largest buffer for unfinished lines that is kept for the
	// next one.
	keepLine = 4 << 10
)

// Open returns the writers for one attempt's stdout and stderr if lines are shown
// as they come. The writers pass on whole lines. Close passes on an unfinished
// last line and adds a newline. With Plan.Order the lines of a task wait in the
// spool until it is the task's turn.
//
// Each writer is for one goroutine. Both must be closed before the task is
// Finished. Consume returns the errors of Write, too.
func (s *Stdout) Open(a task.Attempt) (stdout, stderr io.WriteCloser) {
	w := lineWriter{s: s, prefix: s.prefix(a.Task, a.Slot.ID, a.Slot.Host, a.Units), lost: new(bool)}
	if s.cfg.Plan.Order {
		w.held = s.openLines(a.Task.ID)
		w.lost = &w.held.lost
	}
	both := &[2]lineWriter{w, w}
	both[toStderr].stream = toStderr
	return &both[toStdout], &both[toStderr]
}

// Stray returns a writer for lines on stderr that belong to no task. It is for one
// goroutine.
func (s *Stdout) Stray(tag string) io.WriteCloser {
	w := &lineWriter{s: s, stream: toStderr, lost: new(bool), fenced: s.cfg.Group != nil && s.scr.fence.Stop != ""}
	if s.cfg.Plan.Tag {
		w.prefix = tag + "\t"
	}
	return w
}

// lineWriter passes on its input in whole lines.
type lineWriter struct {
	s      *Stdout
	held   *lineBuffer // nil if lines need not wait
	stream int
	prefix string // put before each line
	fenced bool   // outside of all groups, in a fence
	closed bool
	lost   *bool // lines could not be shown: of the attempt or, with Plan.Order, of the task

	// The unfinished line is in rest, or in long once rest would exceed longLine.
	rest []byte
	long *spool.Buffer
}

// Write keeps an unfinished line at the end of p and passes on what is before it.
func (w *lineWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, fs.ErrClosed
	}
	end := bytes.LastIndexByte(p, '\n') + 1
	if end > 0 {
		if err := w.lines(p[:end]); err != nil {
			return 0, err
		}
	}
	if err := w.keep(p[end:]); err != nil {
		return end, err
	}
	return len(p), nil
}

// Close passes on an unfinished line. It may be called again.
func (w *lineWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if len(w.rest) == 0 && w.long == nil {
		return nil
	}
	return w.lines([]byte{'\n'})
}

// keep appends p to the unfinished line.
func (w *lineWriter) keep(p []byte) error {
	if w.long == nil {
		if len(w.rest)+len(p) <= longLine {
			w.rest = append(w.rest, p...)
			return nil
		}
		w.long = w.s.cfg.Store.Buffer()
		rest := w.rest
		w.rest = nil
		if err := w.keep(rest); err != nil {
			return err
		}
	}
	_, err := w.long.Write(p)
	w.s.note(err)
	return err
}

// lines passes on the unfinished line and p, which ends with a newline.
func (w *lineWriter) lines(p []byte) error {
	if w.long != nil {
		n := bytes.IndexByte(p, '\n') + 1
		if err := w.endLong(p[:n]); err != nil || n == len(p) {
			return err
		}
		p = p[n:]
	}
	if len(w.rest) > 0 {
		p = append(w.rest, p...)
		w.rest = p[:0]
	}
	if cap(w.rest) > keepLine {
		w.rest = nil
	}
	if w.prefix == "" {
		_, err := emitter{w}.Write(p)
		return err
	}
	t := w.s.taggers.Get().(*tagger)
	defer w.s.taggers.Put(t)
	t.reset(emitter{w}, w.prefix, true, "")
	_, err := t.Write(p)
	return cmp.Or(err, t.end(""))
}

// endLong passes on the line in long with its end.
func (w *lineWriter) endLong(end []byte) error {
	long := w.long
	w.long = nil
	defer long.Close()
	return w.emit(func(dst io.Writer) error {
		if _, err := io.WriteString(dst, w.prefix); err != nil {
			return err
		}
		if _, err := long.WriteTo(dst); err != nil {
			return err
		}
		_, err := dst.Write(end)
		return err
	})
}

// emitter passes on whole lines. Each write is emitted at once.
type emitter struct{ w *lineWriter }

func (e emitter) Write(p []byte) (int, error) {
	return len(p), e.w.emit(func(dst io.Writer) error {
		_, err := dst.Write(p)
		return err
	})
}

// emit calls write with the current destination of whole lines. Nobody else
// writes to that meanwhile.
func (w *lineWriter) emit(write func(io.Writer) error) error {
	if w.held != nil {
		if waits, err := w.held.keep(w.s.cfg.Store, w.stream, write); waits {
			w.s.note(err)
			return err
		}
	}
	err := w.s.print(func() error {
		p := &w.s.ports[w.stream]
		if !w.fenced {
			return write(p)
		}
		f := w.s.scr.fence
		_, begun := io.WriteString(p, f.Stop)
		failed := cmp.Or(begun, write(p))
		_, ended := io.WriteString(p, f.Resume)
		return cmp.Or(failed, ended)
	})
	if err != nil && w.stream == toStdout && !*w.lost {
		*w.lost = w.s.lose(err, 1)
	}
	return err
}

// lineBuffer holds the lines of a running task, through all its attempts, until
// it is the task's turn. From then on lines go straight to the screen.
type lineBuffer struct {
	mu   sync.Mutex
	live bool        // it is the task's turn
	lost bool        // lines could not be shown
	held task.Result // its outputs are buffers of the spool, or nil
}

// openLines returns the line buffer of a task.
func (s *Stdout) openLines(id uint64) *lineBuffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[id]
	if l == nil {
		l = &lineBuffer{live: id <= s.turn}
		s.lines[id] = l
	}
	return l
}

// keep calls write with the buffer of a stream if the lines have to wait.
func (l *lineBuffer) keep(store *spool.Store, stream int, write func(io.Writer) error) (waits bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live {
		return false, nil
	}
	held := [...]*task.Output{&l.held.Stdout, &l.held.Stderr}[stream]
	if *held == nil {
		*held = store.Buffer()
	}
	return true, write((*held).(*spool.Buffer))
}

// passTurn makes it the turn of task id: it shows the lines that waited, and lets
// further ones be shown as they come. All tasks before it are on the screen.
func (s *Stdout) passTurn(id uint64) {
	s.mu.Lock()
	before, l := s.turn, s.lines[id]
	s.turn = id
	s.mu.Unlock()
	if before == id || l == nil {
		return
	}
	// The task's writers wait until the earlier lines are shown.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = s.show(&large{result: l.held})
	l.held.Close()
	l.held = task.Result{}
	l.live = true
}

// endLines returns a result with the lines held for a finished task.
func (s *Stdout) endLines(id uint64) *task.Result {
	s.mu.Lock()
	l := s.lines[id]
	delete(s.lines, id)
	s.mu.Unlock()
	if l == nil {
		return new(task.Result)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return &l.held
}

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

// reset prepares t for a new stream, and begins with a text of whole lines.
func (t *tagger) reset(w io.Writer, prefix string, whole bool, begin string) {
	*t = tagger{w: w, prefix: prefix, whole: whole, buf: append(t.buf[:0], begin...)}
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

// end adds a newline to an unfinished last line, and a text, and writes what is left.
func (t *tagger) end(text string) error {
	if t.inside {
		t.buf = append(t.buf, '\n')
		t.inside = false
	}
	t.buf = append(t.buf, text...)
	t.flush()
	return t.err
}
