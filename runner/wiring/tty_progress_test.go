package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTerminalBar has the bar say how far the run is, below what tasks print. Ctrl-\ says
// more above it, and Ctrl-C reaches crew and not its tasks, which finish.
func TestTerminalBar(t *testing.T) {
	t.Parallel()
	cmd := crew("-j2", "-a", "in", "sh", "-c", `[ $1 = 1 ] || until [ -e go ]; do sleep 0.05; done; echo "done $1"`, "sh")
	cmd.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "in"), []byte(counted(3000)), 0o666))
	v := startOnTerminal(t, 120, cmd)
	v.await(t, `^done 1\ncrew: 1/3000 done, 2 running, 0 failed, after \d+s, .*oldest \d+s +0% \[\.+\]\ncrew: longest: \d+s 2, \d+s 3$`)
	v.say(t, "\x1c")
	v.await(t, `^crew: running, .* after the start: 1 of 3000 tasks finished, 0 failed, 2 running$`)
	v.say(t, "\x03")
	v.await(t, `^crew: draining: no more tasks start; waiting for 2 running tasks \(2, 3\);`)
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o666))
	status, lines := v.end(t)
	require.Equal(t, syscall.SIGINT, status.Signal())
	all := strings.Join(lines, "\n")
	require.Contains(t, all, "\ndone 3\n")
	require.NotContains(t, all, "done 4")
	require.Regexp(t, `\ncrew: 3 of 3000 tasks done in [0-9.]+s; 2997 not started\n`, all)
	require.NotContains(t, all, "[.", "nothing of the bar is left")
}
