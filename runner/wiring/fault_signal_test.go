package wiring

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestFaultJobControl has a person at a terminal press Ctrl-Z and say fg.
func TestFaultJobControl(t *testing.T) {
	t.Parallel()
	v := startShell(t)
	v.say(t, `mkfifo gate; "$CREW" -j2 -k --timeout 1h 'echo > ready{}; read x < gate; echo done {}' ::: 1 2; echo "status $?"`+"\n")
	crewtest.Exists(t, filepath.Join(v.cmd.Dir, "ready1"))
	crewtest.Exists(t, filepath.Join(v.cmd.Dir, "ready2"))
	v.say(t, "\x1a")
	v.await(t, `^\[1\]\+ +Stopped `)
	v.say(t, "fg; echo \"over $?\"\n")
	v.await(t, `(?s)over \$.*CREW.*\n`)
	gate, err := os.OpenFile(filepath.Join(v.cmd.Dir, "gate"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer gate.Close()
	_, err = gate.WriteString("\n\n")
	require.NoError(t, err)
	v.await(t, `^done 1\ndone 2\nover 0$`)
}

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
