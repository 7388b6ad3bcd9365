package sink

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
)

// TestNonblockingStdout checks that a pipe that became non-blocking after crew opened it takes
// everything once it is read, and that the loss of its reader is noticed.
func TestNonblockingStdout(t *testing.T) {
	for _, read := range []bool{true, false} {
		var fds [2]int
		require.NoError(t, unix.Pipe(fds[:]))
		r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
		require.NoError(t, unix.SetNonblock(fds[1], true))
		_, err := w.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, syscall.EAGAIN, "it is full")

		s := NewStdout(NewScreen(w, io.Discard), StdoutConfig{})
		want := strings.Repeat("0123456789abcdef", 40_000)
		failed := make(chan error, 1)
		go func() {
			failed <- s.Consume([]task.Event{spoken(t, newStore(t, 1<<20), 1, want, "")})
			w.Close()
		}()
		var got []byte
		if read {
			got, err = io.ReadAll(r)
			require.NoError(t, err)
		}
		r.Close()
		if err := <-failed; read {
			require.NoError(t, err)
			require.True(t, strings.TrimLeft(string(got), "\x00") == want)
		} else {
			require.ErrorIs(t, err, syscall.EPIPE)
		}
	}
}
