package wiring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// aWhile is a task that says when so much time has passed that a bar would be drawn, and
// ends when there is a file "go".
const aWhile = `sleep 1; echo a while; until [ -e go ]; do sleep 0.05; done`

// TestTerminalOfOthers has the bar wait while another program reads keys or a password, as
// less does behind a pipe or sudo does.
func TestTerminalOfOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"-icanon", "-echo"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cmd := onShell(t, `stty `+mode+`; exec "$CREW" -j2 --output=line ::: "$1" "exit 3"`)
			v := startOnTerminal(t, 80, cmd)
			v.await(t, `^a while$`)
			require.NotContains(t, v.written(), "crew: ", "neither a bar nor a failure")
			v.change(t, func(mode *unix.Termios) { mode.Lflag |= unix.ICANON | unix.ECHO })
			v.await(t, `^crew: task 2 failed: exit 3 after [0-9.]+m?s: exit 3\ncrew: 1/2 done, 1 running`)
			v.change(t, func(mode *unix.Termios) { mode.Lflag &^= unix.ECHO })
			seen := len(v.written())
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o666))
			v.end(t)
			require.NotContains(t, v.written()[seen:], eraseBar, "it does not erase what others have written")
		})
	}
}

// TestTerminalBackground has no bar in the background, where a person goes on typing.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	cmd := onShell(t, `set -m; "$CREW" --output=line ::: "$1" & read x; fg`)
	v := startOnTerminal(t, 80, cmd)
	v.await(t, `^a while$`)
	require.NotContains(t, v.written(), "done", "no bar")
	v.say(t, "\n")
	v.await(t, `^crew: 0/1 done, 1 running`)
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o666))
	status, lines := v.end(t)
	require.Zero(t, status.ExitStatus())
	require.NotContains(t, lines, "running")
}

// eraseBar begins what removes the bar.
const eraseBar = "\r\x1b[J"

// onShell returns a command of bash, where $CREW is crew and $1 is aWhile.
func onShell(t *testing.T, script string) *exec.Cmd {
	cmd := exec.Command("/bin/bash", "-c", script, "bash", aWhile)
	cmd.Dir = t.TempDir()
	cmd.Env = append(crew().Env, "CREW="+os.Args[0])
	return cmd
}
