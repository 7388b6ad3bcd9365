package sink

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// lateNonblocking returns a pipe whose write end became non-blocking after crew
// had opened it.
func lateNonblocking(t *testing.T) (r, w *os.File) {
	var fds [2]int
	require.NoError(t, unix.Pipe(fds[:]))
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	require.NoError(t, unix.SetNonblock(fds[1], true))
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestNonblockingStdoutLosesNothing(t *testing.T) {
	r, w := lateNonblocking(t)
	_, err := w.Write(make([]byte, 1<<20))
	require.ErrorIs(t, err, syscall.EAGAIN, "the write end is non-blocking")

	store := newStore(t, 1<<20)
	s := NewStdout(NewScreen(w, io.Discard), StdoutConfig{})
	want := strings.Repeat("0123456789abcdef", 40_000)
	failed := make(chan error)
	go func() {
		failed <- s.Consume([]task.Event{spoken(t, store, 1, want, ""), spoken(t, store, 2, "end", "")})
		w.Close()
	}()
	got := make(chan string)
	go func() {
		p, _ := io.ReadAll(r)
		got <- string(p)
	}()
	require.NoError(t, <-failed)
	require.True(t, strings.TrimLeft(<-got, "\x00") == want+"end")
}

func TestNonblockingStdoutWithoutReader(t *testing.T) {
	r, w := lateNonblocking(t)
	w.Write(make([]byte, 1<<20))
	store := newStore(t, 1<<20)
	s := NewStdout(NewScreen(w, io.Discard), StdoutConfig{})
	failed := make(chan error)
	go func() { failed <- s.Consume([]task.Event{spoken(t, store, 1, "x", "")}) }()
	r.Close()
	require.ErrorIs(t, <-failed, syscall.EPIPE)
}
