package sink

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// Open returns the writers for one attempt's stdout and stderr if lines are shown
// as they come. The writers pass on whole lines. Close passes on an unfinished
// last line and adds a newline. With Plan.Order the lines of a task wait in the
// spool until it is the task's turn.
//
// Each writer is for one goroutine. Both must be closed before the task is
// Finished. Consume returns the errors of Write, too.
func (s *Stdout) Open(a task.Attempt) (stdout, stderr io.WriteCloser) {
	w := lineWriter{s: s, prefix: s.prefix(a.Task, a.Slot.ID, a.Slot.Host, a.Units)}
	if s.cfg.Plan.Order {
		w.held = s.openLines(a.Task.ID)
	}
	both := &[2]lineWriter{w, w}
	both[toStderr].stream = toStderr
	return &both[toStdout], &both[toStderr]
}

// OpenStderr returns a writer for lines on stderr that belong to no task. It is for one
// goroutine.
func (s *Stdout) OpenStderr(tag string) io.WriteCloser {
	w := &lineWriter{s: s, stream: toStderr}
	if s.cfg.Group != nil {
		w.fence = s.scr.fence // outside of all groups
	}
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
	fence  Fence  // around whole lines
	closed bool
	rest   *spool.Buffer // the unfinished line; nil for none
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
	n, err := w.keep(p[end:])
	return end + n, err
}

// Close passes on an unfinished line. It may be called again.
func (w *lineWriter) Close() error {
	if w.closed {
		return nil
	}
	if w.closed = true; w.rest == nil {
		return nil
	}
	return w.lines([]byte{'\n'})
}

// keep appends p to the unfinished line.
func (w *lineWriter) keep(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if w.rest == nil {
		w.rest = w.s.cfg.Store.Buffer()
	}
	n, err := w.rest.Write(p)
	w.s.note(err)
	return n, err
}

// lines passes on the unfinished line and p, which ends with a newline. Nobody else writes
// to their destination meanwhile.
func (w *lineWriter) lines(p []byte) error {
	texts := []task.Output{spool.Text(p)}
	if w.rest != nil {
		texts = []task.Output{w.rest, texts[0]}
		defer w.rest.Close()
		w.rest = nil
	}
	write := func(dst io.Writer) error {
		return w.s.tagged(dst, w.prefix, w.fence.Stop, w.fence.Resume, texts...)
	}
	if w.held != nil {
		if waits, err := w.held.keep(w.s.cfg.Store, w.stream, write); waits {
			w.s.note(err)
			return err
		}
	}
	w.s.scr.mu.Lock()
	defer w.s.scr.mu.Unlock()
	err := write(&w.s.ports[w.stream])
	w.s.note(err)
	return err
}

// lineBuffer holds the lines of a running task, through all its attempts, until
// it is the task's turn. From then on lines go straight to the screen.
type lineBuffer struct {
	mu   sync.Mutex
	live bool        // it is the task's turn
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
	s.show(nil, &l.held)
	s.flush()
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

// tagged writes texts to w, one behind the other, with a prefix before each line and between
// lines of its own. If one of these is not empty, it ends an unfinished last line.
func (s *Stdout) tagged(w io.Writer, prefix, begin, end string, texts ...task.Output) error {
	t := s.taggers.Get().(*tagger)
	defer s.taggers.Put(t)
	*t = tagger{w: w, prefix: prefix, buf: append(t.buf[:0], begin...)}
	var failed error
	for _, o := range texts {
		_, err := o.WriteTo(t)
		failed = cmp.Or(failed, err)
	}
	if t.inside {
		t.buf = append(t.buf, '\n')
	}
	t.buf = append(t.buf, end...)
	return cmp.Or(failed, t.flush())
}

// tagger puts a prefix before each line and writes to w about a piece at a time.
type tagger struct {
	w      io.Writer
	prefix string
	buf    []byte // not yet written to w
	inside bool   // the last byte was not the end of a line
}

func (t *tagger) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if !t.inside {
			t.buf = append(t.buf, t.prefix...)
		}
		i := len(p)
		if t.prefix != "" {
			i = cmp.Or(bytes.IndexByte(p, '\n')+1, i)
		}
		t.buf = append(t.buf, p[:i]...)
		t.inside = p[i-1] != '\n'
		if p = p[i:]; len(t.buf) >= piece {
			if err := t.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (t *tagger) flush() error {
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}
