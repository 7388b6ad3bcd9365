package wiring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTaskTerminalsHaveTheSizeOfCrews: when it starts, and when the window changes.
func TestTaskTerminalsHaveTheSizeOfCrews(t *testing.T) {
	t.Parallel()
	v := startOnTerminal(t, 90, crew("--pty", "--progress=never", "--output=line", "-n0",
		`trap 'stty size <&1; stty size <&2; exit' WINCH; echo "at first $(stty size <&2)"; while :; do sleep 0.01; done`, ":::", "1"))
	v.await(t, `^at first 24 90$`)
	v.control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 70})
	})
	v.await(t, `^30 70\n30 70$`)
	status, _ := v.end(t)
	require.Zero(t, status.ExitStatus())
}

// TestFaultAllTerminalsAreInUse: tasks wait for each other's, and a run that gets none
// says so.
func TestFaultAllTerminalsAreInUse(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const few = `exec unshare --mount /bin/sh -c 'mount -t devpts -o newinstance,ptmxmode=666,max='$MAX' few /dev/pts &&
		mount --bind /dev/pts/ptmx /dev/ptmx && exec "$@"' sh "$@"`
	f := newFault(t, "--pty", "-j4", "-k", "test -t 1 && test -t 2 && sleep 0.05; echo {}", ":::", "1", "2", "3", "4", "5").under("MAX=3;" + few)
	f.start().Exits(0)
	require.Equal(t, counted(5), f.Stdout())
	require.Contains(t, f.Stderr(), " waits to start: open /dev/ptmx: all pseudo-terminals are in use (sysctl kernel.pty.max)\n")
	f.Gone()
}

// TestNoTerminals: without them nothing runs.
func TestNoTerminals(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFault(t, "--pty", "touch", ":::", "ran").under(`exec unshare --mount /bin/sh -c 'mount --bind /dev/null /dev/ptmx && exec "$@"' sh "$@"`)
	f.start().Exits(statusUsage)
	require.Equal(t, "crew: --pty needs pseudo-terminals: set up a pseudo-terminal: inappropriate ioctl for device: drop --pty\n", f.Stderr())
	_, err := os.Stat(filepath.Join(f.dir, "ran"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
