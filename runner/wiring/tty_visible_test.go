package wiring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTerminalCommands has commands that are shown on a terminal leave it alone, and do
// the same when they are pasted into a shell.
func TestTerminalCommands(t *testing.T) {
	t.Parallel()
	odd := []string{"\x1b]0;title\a\x1b[2Ja", "\r\xff\u009b\u202e", "-%s\\033\t!", "b\ncrew: c\n"}
	want := strings.Join(odd, "")
	for _, command := range [][]string{
		{"sh", "-c", `printf %s "$1" >>out`, "sh"},
		{"printf %s {} >>out"},
	} {
		for _, option := range []string{"--dry-run", "-t"} {
			dir := t.TempDir()
			cmd := crew(append(append([]string{"-j1", "--progress=never", option}, command...), append([]string{":::"}, odd...)...)...)
			cmd.Dir = dir
			v := startOnTerminal(t, 300, cmd)
			status, lines := v.end(t)
			require.Zero(t, status.ExitStatus(), "%q", lines)
			require.NotContains(t, lines, "crew: c")
			out := filepath.Join(dir, "out")
			if option == "-t" {
				requireText(t, want, out)
				require.NoError(t, os.Remove(out))
			}
			sh := exec.Command("sh", "-e")
			sh.Dir, sh.Stdin = dir, strings.NewReader(strings.Join(lines, "\n"))
			require.NoError(t, sh.Run(), lines)
			requireText(t, want, out)
		}
	}

	// A task's own environment, directory and input.
	cmd := crew("-j1", "--dry-run", "--input", "json", "-a", "in")
	cmd.Dir = t.TempDir()
	record := `{"command": "cd / && cat && printf %s \"$A\"", "env": {"A": "\u001b[1m"}, "dir": "\u001b[2", "stdin": "x\n\u001b[3m\n"}`
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "in"), []byte(record), 0o666))
	require.NoError(t, os.Mkdir(filepath.Join(cmd.Dir, "\x1b[2"), 0o777))
	_, lines := startOnTerminal(t, 300, cmd).end(t)
	sh := exec.Command("sh", "-e")
	sh.Dir, sh.Stdin = cmd.Dir, strings.NewReader(strings.Join(lines, "\n"))
	out, err := sh.Output()
	require.NoError(t, err, lines)
	require.Equal(t, "x\n\x1b[3m\n\x1b[1m", string(out))
}

func requireText(t *testing.T, want, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
}
