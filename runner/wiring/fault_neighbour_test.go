package wiring

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// TestFaultNobodyReadsAnyMore: the run ends with its reader, though its
// tasks have nothing to say.
func TestFaultNobodyReadsAnyMore(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"group", "line", "raw"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, "-j3", "--kill-after", "1h", "--output", mode, `echo {}; echo > ready{}; [ {} = 1 ] || sleep 600`)
			f.Cmd.Stdin = strings.NewReader(counted(1000))
			r, w, err := os.Pipe()
			require.NoError(t, err)
			f.Cmd.Stdout = w
			f.start()
			require.NoError(t, w.Close())
			_, err = bufio.NewReader(r).ReadString('\n')
			require.NoError(t, err)
			for _, ready := range []string{"ready2", "ready3", "ready4"} { // they write no more
				f.await(ready, "\n")
			}
			require.NoError(t, r.Close())
			f.Exits(141)
			require.Regexp(t, `\Acrew: nobody reads stdout any more: 1 of (at least )?\d+ tasks done in .*; 3 interrupted, .*not started\n\z`, f.Stderr())
			f.Gone()
		})
	}
}

// TestFaultAReaderStandsStill: nothing is lost when it goes on, and it cannot
// keep crew from ending when told.
func TestFaultAReaderStandsStill(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--output", "group"}, {"--output", "group", "-k"}, {"--output", "line"}, {"--output", "line", "-k"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			begin := func() (*fault, *os.File) {
				f := newFault(t, append(args, "-n0", "-j2", "--kill-after", "1", "echo >> ran; "+blocks(40)+"; echo")...)
				f.Cmd.Stdin = strings.NewReader(counted(50))
				r, w, err := os.Pipe()
				require.NoError(t, err)
				f.Cmd.Stdout = w
				f.start()
				require.NoError(t, w.Close())
				f.await("ran", "\n\n\n")
				crewtest.Until(f.t, func() bool {
					n, err := kernel.Unread(int(r.Fd()))
					require.NoError(t, err)
					return n > 60<<10
				}, "the pipe to be full")
				return f, r
			}
			f, r := begin()
			defer r.Close()
			out, err := io.ReadAll(r)
			require.NoError(t, err)
			f.Exits(0)
			require.Equal(t, strings.Repeat(strings.Repeat("x", 40<<10)+"\n", 50), string(out))

			f, r = begin()
			defer r.Close()
			f.Send(syscall.SIGTERM)
			f.Dies(syscall.SIGTERM)
			f.Gone()
			require.Contains(t, f.Stderr(), "crew: nobody reads stdout: what had not been written there is lost\n")
		})
	}
}

// TestFaultTheLastLineCanBeGivenUp: when all is done but to say what went wrong, and
// nobody reads that, a signal still ends crew.
func TestFaultTheLastLineCanBeGivenUp(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-q", "--joblog", "log", "echo > ran; : "+strings.Repeat("x", 5000), ":::", "a").under(`ulimit -f 1; exec "$@"`)
	w := fullPipe(t)
	f.Cmd.Stderr = w // which hands it over as a blocking one
	f.start().await("ran", "\n")
	crewtest.Until(t, func() bool {
		_ = f.Cmd.Process.Signal(syscall.SIGINT)
		return !crewtest.Alive(f.Cmd.Process.Pid)
	}, "crew to end")
	f.Dies(syscall.SIGINT)
}

// fullPipe is a pipe that nobody reads and that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	require.NoError(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	return w
}

// TestFaultWhatIsStillToBeSaidHoldsNobody: a line behind an output that stdout does not take
// does not keep crew from ending.
func TestFaultWhatIsStillToBeSaidHoldsNobody(t *testing.T) {
	t.Parallel()
	const script = `[ {} = 1 ] || ` // and then more than a pipe holds
	first := newFault(t, "--state", "state", "--output", "none", script+blocks(100), ":::", "1")
	first.start().Exits(0)
	f := newFault(t, "--state", filepath.Join(first.dir, "state"), "--kill-after", "1", "--replay", script+blocks(100), ":::", "1", "2")
	f.Cmd.Dir = first.dir
	f.Cmd.Stdout = fullPipe(t)
	f.start()
	f.await("stderr", "going on in")
	f.Send(syscall.SIGTERM)
	f.Dies(syscall.SIGTERM)
}
