package sink

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// show writes text as a task's output to stdout (0) or stderr (1).
func show(t *testing.T, s *Screen, where int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString([]io.Writer{s.out, s.err}[where], text)
	require.NoError(t, err)
}

// TestStatusDoesNotWait checks urgent lines while the reader of stdout is stuck.
func TestStatusDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	var err bytes.Buffer
	s := NewScreen(w, &err)
	stuck, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(stuck)
		_, _ = s.out.Write([]byte("x"))
	}()
	<-stuck
	s.Urgent("running", "task 1: a\x1bb")
	require.Equal(t, "crew: running\ncrew: task 1: a\\x1bb\n", err.String())
	r.Close()
	<-done
}
