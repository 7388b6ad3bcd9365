package wiring

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// stand waits until the n processes of the test are stopped, or none of them is.
// They are not to start others: who has vforked one that is stopped is not stopped
// itself.
func (f *fault) stand(n int, still bool) {
	f.t.Helper()
	f.until(func() bool {
		pids := f.alive()
		for _, pid := range pids {
			if (f.state(pid) == "T") != still {
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
	f.send(syscall.SIGTSTP)
	f.stand(2, true)
	f.until(func() bool { return f.state(f.cmd.Process.Pid) == "T" }, "crew to stop")
	stopped := time.Now()
	f.until(func() bool { return time.Since(stopped) > 5*time.Second }, "more than the timeout")
	f.open()
	f.send(syscall.SIGCONT)
	f.ends(0)
	require.ElementsMatch(t, []string{"done 1", "done 2"}, strings.Split(strings.TrimSpace(f.stdout()), "\n"))
}

func TestFaultAStoppedTimeoutGoesOn(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-n0", "--timeout", "2", "--kill-after", "1", `trap "" TERM; echo > ready; read x < gate`, ":::", "1").gate()
	f.start().await("ready", "\n")
	f.send(syscall.SIGTSTP)
	f.stand(1, true)
	f.until(func() bool { return f.state(f.cmd.Process.Pid) == "T" }, "crew to stop")
	f.send(syscall.SIGCONT)
	f.ends(123)
	require.Contains(t, f.stderr(), "timed out")
	f.gone()
}

func TestFaultIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", `echo >> ready; while [ ! -e go ]; do sleep 0.05; done; echo done {}`, ":::", "1", "2").
		under(`trap "" TSTP HUP INT; exec "$@"`)
	f.start().await("ready", "\n")
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGHUP, syscall.SIGINT} {
		f.send(sig)
	}
	f.write("go", "", 0o666)
	f.ends(0)
	require.Equal(t, "done 1\ndone 2\n", f.stdout())
}

func TestFaultInterruptNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j2", "--kill-after", "1h", `trap "" TERM; echo > ready{}; sleep 600; sleep 600`, ":::", "1", "2", "3")
	f.start().await("ready1", "\n")
	f.await("ready2", "\n")
	f.send(syscall.SIGINT)
	f.await("stderr", "crew: draining: waiting for 2 running tasks (1, 2); Ctrl-C again ends them\n")
	f.send(syscall.SIGINT)
	f.await("stderr", "crew: ending: 2 running tasks (1, 2); Ctrl-C again kills them\n")
	f.send(syscall.SIGINT)
	f.dies(syscall.SIGINT)
	f.gone()
}

// TestFaultJobControl has a person at a terminal press Ctrl-Z and say fg.
func TestFaultJobControl(t *testing.T) {
	t.Parallel()
	f := newFault(t).gate()
	script := `"$CREW" -j2 -k --timeout 30 'echo > ready{}; read x < gate; echo done {}' ::: 1 2; echo "status=$?"` + "\n"
	f.cmd.Env = append(f.cmd.Env, "CREW="+f.cmd.Path, "PS1=$ ", "HISTFILE=")
	f.cmd.Path, f.cmd.Args = "/bin/bash", []string{"bash", "--norc", "--noprofile", "-i"}
	f.cmd.Stdin, f.cmd.Stdout, f.cmd.Stderr = nil, nil, nil
	tty, err := pty.Start(f.cmd)
	require.NoError(t, err)
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
	_ = f.wait()
}

// TestFaultTheTerminalGoesAway closes the window in which crew runs.
func TestFaultTheTerminalGoesAway(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", `echo > ready{}; while [ ! -e go ]; do sleep 0.05; done; echo > done{}`, ":::", "1", "2")
	f.cmd.Stdin, f.cmd.Stdout = nil, nil
	tty, err := pty.Start(f.cmd)
	require.NoError(t, err)
	f.await("ready1", "\n")
	require.NoError(t, tty.Close())
	f.await("stderr", "draining (SIGHUP)")
	f.write("go", "", 0o666)
	f.dies(syscall.SIGHUP)
	require.FileExists(t, filepath.Join(f.dir, "done1"), "what ran may finish")
	require.NoFileExists(t, filepath.Join(f.dir, "ready2"), "nothing more starts")
	f.gone()
}
