// Package sink is what people and pipes read: tasks' output on stdout and
// stderr, the progress bar, the digest, the joblog and the results tree.
package sink

import (
	"io"
	"sync"
)

// Screen is the run's stdout and stderr with the progress bar between them.
// Everything is shown through Print, so writers do not mix and no line is
// written into the bar. It is safe for concurrent use.
type Screen struct {
	mu       sync.Mutex
	out, err io.Writer
}

// NewScreen returns a screen of the two streams.
func NewScreen(out, err io.Writer) *Screen { return &Screen{out: out, err: err} }

// Print calls write with both streams, one caller at a time, and returns its
// error.
func (s *Screen) Print(write func(out, err io.Writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return write(s.out, s.err)
}

// Notice prints text on stderr as a line of crew's own, with unprintable characters
// escaped. Errors are ignored.
func (s *Screen) Notice(text string) { s.say("crew: " + harmless(text) + "\n") }

// say prints text, if any, on stderr. What crew says about itself is not worth
// ending a run for, so errors are ignored.
func (s *Screen) say(text string) {
	if text == "" {
		return
	}
	_ = s.Print(func(_, err io.Writer) error {
		_, e := patient{err}.Write([]byte(text))
		return e
	})
}

// Urge is Notice for the end of a run, when nobody may be reading: it prints
// nothing if that would have to wait. It does not wait for a Print either, which
// may be stuck in a write for ever.
func (s *Screen) Urge(text string) {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
	}
	w := s.err
	if o, ok := w.(overBar); ok {
		w = o.file // the bar may be changed only under the lock
	}
	if writable(w) {
		_, _ = io.WriteString(w, "crew: "+harmless(text)+"\n")
	}
}
