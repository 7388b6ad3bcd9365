package sink

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusDoesNotWait has a reader of stdout that stands still.
func TestStatusDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	var err bytes.Buffer
	s := NewScreen(w, &err)
	stuck, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Print(func(out, _ io.Writer) error {
			close(stuck)
			_, e := out.Write([]byte("x"))
			return e
		})
	}()
	<-stuck
	s.Status([]string{"running", "task 1: a\x1bb"})
	require.Equal(t, "crew: running\ncrew: task 1: a\\x1bb\n", err.String())
	r.Close()
	<-done
}
