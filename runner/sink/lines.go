package sink

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// longLine is how much of a line without end is kept in memory; past it
	// the line goes to the spool.
	longLine = 64 << 10
	// keepLine is the largest room for unfinished lines that is kept for the
	// next one.
	keepLine = 4 << 10
)

// Open gives the writers for one attempt's stdout and stderr where lines are shown
// as they come.
// They pass on whole lines; Close passes on the last one and ends it with a
// newline where it has none. With Plan.Order the lines of tasks whose turn has
// not come wait in the spool.
//
// Each writer is for one goroutine; the task must not be Finished before both
// are closed. An error of Write is also returned by Consume.
func (s *Stdout) Open(a task.Attempt) (stdout, stderr io.WriteCloser) {
	w := &[2]lineWriter{{s: s}, {s: s, stderr: true}}
	if s.cfg.Plan.Tag {
		w[0].prefix = prefix(a.Task, a.Slot.ID)
		w[1].prefix = w[0].prefix
	}
	if s.cfg.Plan.Order {
		w[0].held = s.openLines(a.Task.ID)
		w[1].held = w[0].held
	}
	return &w[0], &w[1]
}

// lineWriter makes chunks into whole lines.
type lineWriter struct {
	s      *Stdout
	held   *lineBuffer // nil where lines need not wait
	stderr bool
	prefix string // empty without tags
	closed bool

	// The line that has begun: in long once it is too much for rest.
	rest []byte
	long *spool.Buffer
}

// Write takes p and passes on the lines that it ends.
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
	if err := w.begin(p[end:]); err != nil {
		return end, err
	}
	return len(p), nil
}

// Close passes on what is left.
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

// begin keeps the start of a line.
func (w *lineWriter) begin(p []byte) error {
	if w.long == nil && len(w.rest)+len(p) <= longLine {
		w.rest = append(w.rest, p...)
		return nil
	}
	if w.long == nil {
		w.long = w.s.cfg.Store.Buffer()
		rest := w.rest
		w.rest = nil
		if err := w.begin(rest); err != nil {
			return err
		}
	}
	_, err := w.long.Write(p)
	w.s.note(err)
	return err
}

// lines passes on p, which ends with a newline, after the line that had begun.
func (w *lineWriter) lines(p []byte) error {
	if w.long != nil {
		n := bytes.IndexByte(p, '\n') + 1
		if err := w.endLong(p[:n]); err != nil || n == len(p) {
			return err
		}
		p = p[n:]
	}
	rest := w.rest
	w.rest = w.rest[:0]
	if cap(rest) > keepLine {
		w.rest = nil
	}
	if w.prefix == "" {
		return w.emit(func(dst io.Writer) error {
			if len(rest) > 0 {
				if _, err := dst.Write(rest); err != nil {
					return err
				}
			}
			_, err := dst.Write(p)
			return err
		})
	}
	t, ok := w.s.taggers.Get().(*tagger)
	if !ok {
		t = new(tagger)
	}
	defer w.s.taggers.Put(t)
	t.reset(emitter{w}, w.prefix, true)
	if _, err := t.Write(rest); err != nil {
		return err
	}
	if _, err := t.Write(p); err != nil {
		return err
	}
	return t.end()
}

// endLong passes on the line in long, which end ends.
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

// emitter passes on whole lines.
type emitter struct{ w *lineWriter }

func (e emitter) Write(p []byte) (int, error) {
	err := e.w.emit(func(dst io.Writer) error {
		_, err := dst.Write(p)
		return err
	})
	return len(p), err
}

// emit calls write with the place where whole lines go now.
func (w *lineWriter) emit(write func(io.Writer) error) error {
	s := w.s
	if w.held != nil {
		if waits, err := w.held.keep(s.cfg.Store, w.stderr, write); waits {
			s.note(err)
			return err
		}
	}
	err := s.scr.Print(func(out, err io.Writer) error {
		p := s.port(w.stderr, out, err)
		if p.err != nil {
			return p.err
		}
		return write(p)
	})
	s.note(err)
	return err
}

// lineBuffer is where the lines of a running task go with Plan.Order: they are
// held until its turn comes, and go straight to the screen from then on. It goes
// from attempt to attempt.
type lineBuffer struct {
	mu   sync.Mutex
	live bool
	held large // of buffers
}

// openLines is the line buffer of a task, new with its first attempt.
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

// keep calls write with the buffer, unless lines go straight to the screen.
func (l *lineBuffer) keep(store *spool.Store, stderr bool, write func(io.Writer) error) (waits bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live {
		return false, nil
	}
	held := &l.held.out
	if stderr {
		held = &l.held.err
	}
	if *held == nil {
		*held = store.Buffer()
	}
	return true, write((*held).(*spool.Buffer))
}

// passTurn lets the lines of task id, and of none after it, go out as they
// come, after those that waited. All before it is on the screen.
func (s *Stdout) passTurn(id uint64) {
	s.mu.Lock()
	if s.turn == id {
		s.mu.Unlock()
		return
	}
	s.turn = id
	l := s.lines[id]
	s.mu.Unlock()
	if l == nil {
		return
	}
	// Its writers wait while what they wrote before is shown.
	l.mu.Lock()
	defer l.mu.Unlock()
	s.show(&l.held)
	l.held.close()
	l.held = large{}
	l.live = true
}

// endLines hands to the reorder buffer what is held of a task that has ended.
func (s *Stdout) endLines(id uint64) {
	s.mu.Lock()
	l := s.lines[id]
	delete(s.lines, id)
	s.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := task.Length(l.held.out) + task.Length(l.held.err)
	switch {
	case n == 0:
		return
	case n > piece:
		held := l.held
		s.reorder.putLarge(id, &held)
		return
	}
	w := &s.scratch
	w.p, w.max = w.p[:0], piece
	err := s.copyStream(w, "", l.held.out)
	out := len(w.p)
	if err == nil {
		err = s.copyStream(w, "", l.held.err)
	}
	s.note(err)
	s.note(s.reorder.put(id, w.p[:out], w.p[out:]))
	l.held.close()
}

// closeLines drops the lines that are held.
func (s *Stdout) closeLines() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		l.mu.Lock()
		l.held.close()
		l.mu.Unlock()
	}
	clear(s.lines)
}
