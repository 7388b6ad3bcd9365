package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

func TestFaultTasksStopAndGoOnWithCrew(t *testing.T) {
	t.Parallel()
	// The timeout is over while they stand still.
	f := newFault(t, "-j2", "--timeout", "4", `echo > ready{}; read x < gate; echo done {}`, ":::", "1", "2").gate()
	f.start().await("ready1", "\n")
	f.await("ready2", "\n")
	f.Send(syscall.SIGTSTP)
	f.stand(2, true)
	crewtest.Until(f.t, func() bool { return crewtest.State(f.Cmd.Process.Pid) == "T" }, "crew to stop")
	stopped := time.Now()
	crewtest.Until(f.t, func() bool { return time.Since(stopped) > 5*time.Second }, "more than the timeout")
	f.open()
	f.Send(syscall.SIGCONT)
	f.Exits(0)
	require.ElementsMatch(t, []string{"done 1", "done 2"}, strings.Split(strings.TrimSpace(f.Stdout()), "\n"))
}

func TestFaultAStoppedTimeoutGoesOn(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-n0", "--timeout", "2", "--kill-after", "1", `trap "" TERM; echo > ready; read x < gate`, ":::", "1").gate()
	f.start().await("ready", "\n")
	f.Send(syscall.SIGTSTP)
	f.stand(1, true)
	crewtest.Until(f.t, func() bool { return crewtest.State(f.Cmd.Process.Pid) == "T" }, "crew to stop")
	f.Send(syscall.SIGCONT)
	f.Exits(123)
	require.Contains(t, f.Stderr(), "timed out")
	f.Gone()
}

func TestFaultIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", `echo >> ready; while [ ! -e go ]; do sleep 0.05; done; echo done {}`, ":::", "1", "2").
		under(`trap "" TSTP HUP INT; exec "$@"`)
	f.start().await("ready", "\n")
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGHUP, syscall.SIGINT} {
		f.Send(sig)
	}
	f.write("go", "", 0o666)
	f.Exits(0)
	require.Equal(t, "done 1\ndone 2\n", f.Stdout())
}

func TestFaultInterruptNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j2", "--kill-after", "1h", `trap "" TERM; echo > ready{}; sleep 600; sleep 600`, ":::", "1", "2", "3")
	f.start().await("ready1", "\n")
	f.await("ready2", "\n")
	f.Send(syscall.SIGINT)
	f.await("stderr", "crew: draining: waiting for 2 running tasks (1, 2); Ctrl-C again ends them\n")
	f.Send(syscall.SIGINT)
	f.await("stderr", "crew: ending: 2 running tasks (1, 2); Ctrl-C again kills them\n")
	f.Send(syscall.SIGINT)
	f.Dies(syscall.SIGINT)
	f.Gone()
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
