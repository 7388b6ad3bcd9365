// Package sink is what people and pipes read: tasks' output on stdout and
// stderr, the progress bar, the digest, the joblog and the results tree.
package sink

import (
	"io"
	"sync"
)

// Screen is the run's stdout and stderr with the progress bar between them.
// Everything that is shown goes through Print, so that no two writers mix and
// no line is written into the bar. It is safe for concurrent use.
type Screen struct {
	mu       sync.Mutex
	out, err io.Writer
	clear    func() // takes the bar off the terminal; nil without one
}

// NewScreen makes a screen of the two streams.
func NewScreen(out, err io.Writer) *Screen { return &Screen{out: out, err: err} }

// Print calls write with both streams, alone and with the bar off the
// terminal. It returns what write returns.
func (s *Screen) Print(write func(out, err io.Writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clear != nil {
		s.clear()
	}
	return write(s.out, s.err)
}

// Urge prints a line of crew's own on stderr as Notice does, but not where that
// would have to wait: a write that nobody takes may hold the screen for ever.
func (s *Screen) Urge(text string) {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
	}
	w := s.err
	if o, ok := w.(overBar); ok {
		w = o.file // the bar belongs to whoever has the lock
	}
	if writable(w) {
		_, _ = io.WriteString(w, "crew: "+text+"\n")
	}
}

// Notice prints a line of crew's own on stderr.
func (s *Screen) Notice(text string) {
	_ = s.Print(func(_, err io.Writer) error {
		_, e := io.WriteString(err, "crew: "+text+"\n")
		return e
	})
}
