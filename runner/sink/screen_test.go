package sink

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// show writes text to stdout, which is 0, or stderr, 1, as a task's output.
func show(t *testing.T, s *Screen, where int, text string) {
	require.NoError(t, s.Print(func(out, err io.Writer) error {
		_, e := io.WriteString([]io.Writer{out, err}[where], text)
		return e
	}))
}

// TestOwnLinesBeginLines has crew's lines begin at the beginning of a line, whatever
// tasks have printed before.
func TestOwnLinesBeginLines(t *testing.T) {
	t.Run("apart", func(t *testing.T) {
		var out, err bytes.Buffer
		s := NewScreen(&out, &err)
		show(t, s, 1, "to stderr")
		show(t, s, 0, "to stdout")
		s.Notice("one")
		show(t, s, 0, ", more")
		s.Notice("two")
		show(t, s, 1, "more")
		s.Urge("three")
		show(t, s, 1, "")
		s.Last("four")
		require.Equal(t, "to stdout, more", out.String())
		require.Equal(t, "to stderr\ncrew: one\ncrew: two\nmore\ncrew: three\ncrew: four\n", err.String())
	})
	t.Run("together", func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "both"))
		require.NoError(t, err)
		defer f.Close()
		fd, err := unix.Dup(int(f.Fd())) // as 2>&1 does
		require.NoError(t, err)
		again := os.NewFile(uintptr(fd), "again")
		defer again.Close()
		s := NewScreen(f, again)
		show(t, s, 0, "to stdout")
		s.Notice("one")
		show(t, s, 1, "to stderr")
		show(t, s, 0, "\n")
		s.Notice("two")
		show(t, s, 0, "last")
		s.Last("three")
		all, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.Equal(t, "to stdout\ncrew: one\nto stderr\ncrew: two\nlast\ncrew: three\n", string(all))
	})
}

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
