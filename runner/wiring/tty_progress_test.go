package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTerminalInterrupt has Ctrl-C reach crew and not its tasks, which finish.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "go")
	v := startOnTerminal(t, 80, crew("-j1", "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.05; done; echo "done $1"`, open, "{}", ":::", "1", "2"))
	v.await(t, `0/2 done, 1 running`)
	v.say(t, "\x03")
	v.await(t, `^crew: draining: no more tasks start; waiting for 1 running task \(1\); Ctrl-C`)
	require.NoError(t, os.WriteFile(open, nil, 0o666))
	status, lines := v.end(t)
	require.True(t, status.Signaled())
	require.Equal(t, syscall.SIGINT, status.Signal())
	require.Contains(t, lines, "done 1")
	require.NotContains(t, strings.Join(lines, "\n"), "done 2")
}

// TestTerminalStatus has Ctrl-\ say what runs, above the bar, and the run go on.
func TestTerminalStatus(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "go")
	v := startOnTerminal(t, 80, crew("-j1", "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.05; done; echo "done $1"`, open, "{}", ":::", "1", "2"))
	v.await(t, `0/2 done, 1 running`)
	v.say(t, "\x1c")
	v.await(t, `^crew: running, .* after the start: 0 of 2 tasks finished, 0 failed, 1 running$`)
	v.await(t, `^crew: 1 task waits for a worker\ncrew: a second SIGQUIT .* and crew\ncrew: 0/2 done`)
	require.NoError(t, os.WriteFile(open, nil, 0o666))
	status, lines := v.end(t)
	require.Zero(t, status.ExitStatus())
	require.Contains(t, lines, "done 2")
}
