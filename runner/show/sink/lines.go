package sink

import (
	"bytes"
	"cmp"
	"io"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// Open returns writers for the stdout and stderr of an attempt whose lines are shown as they come.
// The writers pass on complete lines. Close passes on an unfinished last line with a newline. With
// Plan.Order, the lines of a task wait in the spool until its turn.
//
// Each writer is for one goroutine and returns errors of the spool. Both must be closed before the task
// is Finished. Consume returns errors of stdout and stderr.
func (s *Stdout) Open(a task.Attempt) (stdout, stderr io.WriteCloser) {
	w := lineWriter{s: s, prefix: s.prefix(a.Task, a.Slot.ID, a.Slot.Host, a.Units)}
	if s.cfg.Plan.Order {
		w.held = s.lineBufferOf(a.Task.ID)
	}
	both := &[2]lineWriter{w, w}
	both[toStderr].stream = toStderr
	return &both[toStdout], &both[toStderr]
}

// OpenStderr returns a writer for lines on stderr that belong to no task. It is for one goroutine.
func (s *Stdout) OpenStderr(tag string) io.WriteCloser {
	w := &lineWriter{s: s, stream: toStderr, stray: true}
	if s.cfg.Group != nil {
		w.fence = s.scr.fence // outside all groups
	}
	if s.cfg.Plan.Tag {
		w.prefix = tag + "\t"
	}
	return w
}

// lineWriter passes on its input in complete lines.
type lineWriter struct {
	s          *Stdout
	held       *lineBuffer // nil if lines need not wait
	stream     int
	stray      bool          // it belongs to no task that could fail, so Consume returns its errors
	prefix     string        // goes before each line
	fence      Fence         // goes around complete lines
	unfinished *spool.Buffer // the unfinished line, or nil
}

// Write passes on the complete lines of p and keeps the rest. It returns an error if it cannot keep
// lines that wait, or the rest.
func (w *lineWriter) Write(p []byte) (n int, err error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	if end > 0 {
		err = w.passOn(p[:end])
	}
	if end < len(p) {
		if w.unfinished == nil {
			w.unfinished = w.s.cfg.Store.Buffer()
		}
		_, failed := w.unfinished.Write(p[end:])
		err = cmp.Or(err, failed)
	}
	if w.stray {
		w.s.noteError(err)
	}
	return len(p), err
}

// Close passes on an unfinished line, with the same errors. There must be no Write after it.
func (w *lineWriter) Close() error {
	if w.unfinished == nil {
		return nil
	}
	return w.passOn([]byte{'\n'})
}

// passOn passes on the unfinished line and p, which ends with a newline, without other output
// between them. It returns an error if they have to wait and cannot be kept.
func (w *lineWriter) passOn(p []byte) error {
	texts := []task.Output{spool.Text(p)}
	if w.unfinished != nil {
		texts = []task.Output{w.unfinished, texts[0]}
		defer w.unfinished.Close()
		w.unfinished = nil
	}
	write := func(dst io.Writer) error {
		return tagged(dst, w.prefix, w.fence.Stop, w.fence.Resume, texts...)
	}
	if w.held != nil {
		if waits, err := w.held.hold(w.s.cfg.Store, w.stream, write); waits {
			return err
		}
	}
	w.s.scr.mu.Lock()
	defer w.s.scr.mu.Unlock()
	b := w.s.bufs[w.stream]
	w.s.noteError(cmp.Or(write(b), b.Flush()))
	return nil
}

// lineBuffer holds the lines of a running task, over all its attempts, until its turn. From then
// on, lines go directly to the screen.
type lineBuffer struct {
	mu     sync.Mutex
	direct bool        // it is the task's turn
	held   task.Result // its outputs are spool buffers or nil
}

// lineBufferOf returns the line buffer of a task.
func (s *Stdout) lineBufferOf(id uint64) *lineBuffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[id]
	if l == nil {
		l = &lineBuffer{direct: id <= s.turn}
		s.lines[id] = l
	}
	return l
}

// hold passes the buffer of a stream to write if the lines must wait.
func (l *lineBuffer) hold(store *spool.Store, stream int, write func(io.Writer) error) (waits bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.direct {
		return false, nil
	}
	held := [...]*task.Output{&l.held.Stdout, &l.held.Stderr}[stream]
	if *held == nil {
		*held = store.Buffer()
	}
	return true, write((*held).(*spool.Buffer))
}

// passTurn makes it the turn of task id: it shows the lines that waited, and later ones are shown
// as they come. All tasks before it must have been shown.
func (s *Stdout) passTurn(id uint64) {
	s.mu.Lock()
	l := s.lines[id]
	s.turn = id
	s.mu.Unlock()
	if l == nil {
		return
	}
	// The task's writers wait until the held lines are shown.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.direct {
		return
	}
	s.show(nil, &l.held)
	l.held.Close()
	l.held = task.Result{}
	l.direct = true
}

// removeLines removes the line buffer of a finished task and returns a result with the held lines.
func (s *Stdout) removeLines(id uint64) *task.Result {
	s.mu.Lock()
	l := s.lines[id]
	delete(s.lines, id)
	s.mu.Unlock()
	if l == nil {
		return new(task.Result)
	}
	return &l.held // its writers are closed
}

// piece is how many bytes are gathered for a write, and the maximum size of an output that is
// copied instead of streamed.
const piece = 64 << 10

// tagged writes texts to w one after another, with a prefix before each line, and with begin and end
// around all of them. It ends an unfinished last line with a newline.
func tagged(w io.Writer, prefix, begin, end string, texts ...task.Output) error {
	t := &tagger{w: w, prefix: prefix}
	_, failed := io.WriteString(w, begin)
	for _, o := range texts {
		_, err := o.WriteTo(t)
		failed = cmp.Or(failed, err)
	}
	if t.midLine {
		end = "\n" + end
	}
	_, err := io.WriteString(w, end)
	return cmp.Or(failed, err)
}

// tagger puts a prefix before each line.
type tagger struct {
	w       io.Writer
	prefix  string
	midLine bool // the last byte was not a newline
}

func (t *tagger) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if !t.midLine {
			_, _ = io.WriteString(t.w, t.prefix) // after an error, the next write fails, too
		}
		end := len(p)
		if i := bytes.IndexByte(p[n:], '\n'); i >= 0 && t.prefix != "" {
			end = n + i + 1
		}
		_, err = t.w.Write(p[n:end])
		n, t.midLine = end, p[end-1] != '\n'
	}
	return n, err
}
