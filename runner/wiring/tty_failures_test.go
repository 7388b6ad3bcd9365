package wiring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTerminalFailures has a failure told when it happens, in red, and tasks' colours end
// where lines of crew's own begin.
func TestTerminalFailures(t *testing.T) {
	t.Parallel()
	cmd := crew("-j1", "--output=line", `[ {} = a ] && { printf '\033[32mgreen'; exit 7; }; until [ -e go ]; do sleep 0.05; done; printf '\033[1mbold\n'`, ":::", "a", "b")
	cmd.Dir = t.TempDir()
	v := startOnTerminal(t, 80, cmd)
	v.await(t, `\Agreen\ncrew: task 1 failed: exit 7 after [0-9.]+m?s: a\ncrew: 1/2 done`)
	require.Regexp(t, `\Agreen\r\n\x1b\[0mcrew: \x1b\[31mtask 1 failed: exit 7 after [0-9.]+m?s\x1b\[0m: a\r\n`, v.written()[len("\x1b[32m"):])
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o666))
	v.end(t)
	require.Regexp(t, `\x1b\[1mbold\r\n\x1b\[0m(?s:.*)crew: \x1b\[31m1 of 2 tasks failed\x1b\[0m in .*\r\ncrew: \x1b\[31mtask 1: exit 7 after .*\x1b\[0m: `, v.written())

	cmd = crew("exit {}", ":::", "7")
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	v = startOnTerminal(t, 80, cmd)
	v.await(t, `\Acrew: task 1 failed: exit 7 after [0-9.]+m?s: 7\ncrew: 1 of 1 task failed in `)
	v.end(t)
	require.NotContains(t, v.written(), "\x1b[3")
}
