package wiring

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// TestFaultTheTerminalGoesAway closes the window in which crew runs.
func TestFaultTheTerminalGoesAway(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", `echo > ready{}; while [ ! -e go ]; do sleep 0.05; done; echo > done{}`, ":::", "1", "2")
	f.Cmd.Stdin, f.Cmd.Stdout = nil, nil
	tty, err := pty.Start(f.Cmd)
	require.NoError(t, err)
	f.start()
	f.await("ready1", "\n")
	require.NoError(t, tty.Close())
	f.await("stderr", "draining (SIGHUP)")
	f.write("go", "", 0o666)
	f.Dies(syscall.SIGHUP)
	require.FileExists(t, filepath.Join(f.dir, "done1"), "what ran may finish")
	require.NoFileExists(t, filepath.Join(f.dir, "ready2"), "nothing more starts")
	f.Gone()
}
