package wiring

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// stand waits until the n processes of the test are stopped, or none of them is.
// They are not to start others: who has vforked one that is stopped is not stopped
// itself.
func (f *fault) stand(n int, still bool) {
	f.t.Helper()
	crewtest.Until(f.t, func() bool {
		pids := f.Left()
		for _, pid := range pids {
			if (crewtest.State(pid) == "T") != still {
				return false
			}
		}
		return len(pids) == n
	}, "%d processes to stand still: %v", n, still)
}

// TestFaultJobControl has a person at a terminal press Ctrl-Z and say fg.
func TestFaultJobControl(t *testing.T) {
	t.Parallel()
	f := newFault(t).gate()
	script := `"$CREW" -j2 -k --timeout 30 'echo > ready{}; read x < gate; echo done {}' ::: 1 2; echo "status=$?"` + "\n"
	f.Cmd.Env = append(f.Cmd.Env, "CREW="+f.Cmd.Path, "PS1=$ ", "HISTFILE=")
	f.Cmd.Path, f.Cmd.Args = "/bin/bash", []string{"bash", "--norc", "--noprofile", "-i"}
	f.Cmd.Stdin, f.Cmd.Stdout, f.Cmd.Stderr = nil, nil, nil
	tty, err := pty.Start(f.Cmd)
	require.NoError(t, err)
	f.start()
	defer tty.Close()
	seen := f.create("seen")
	go func() { _, _ = seen.ReadFrom(tty) }()
	say := func(s string) {
		_, err := tty.WriteString(s)
		require.NoError(t, err)
	}
	say(script)
	f.await("ready1", "\n")
	f.await("ready2", "\n")
	say("\x1a")
	f.stand(3, true) // crew and two shells
	f.await("seen", "Stopped")
	say("fg\n")
	f.stand(3, false)
	f.open()
	f.await("seen", "done 1\r\n")
	f.await("seen", "done 2\r\n")
	say("echo over=$?\n")
	f.await("seen", "over=0")
	say("exit\n")
	_ = f.Wait()
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
