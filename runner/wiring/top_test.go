package wiring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// child returns the only child of a process.
func child(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	all := ""
	for _, list := range lists {
		text, _ := os.ReadFile(list) // of a thread
		all += string(text)
	}
	only, err := strconv.Atoi(strings.TrimSpace(all))
	require.NoError(t, err, "%q", all)
	return only
}

// programTop builds crew-top, and returns an environment in which crew finds it.
func programTop(t *testing.T) []string {
	dir := filepath.Dir(crewtest.Build(t, "crew/runner/control/crew-top"))
	return []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH"), "TERM=xterm-256color", "LC_ALL=C.UTF-8"}
}

// startRun starts a run that goes on until the end of the test, and waits until it can
// be seen.
func startRun(t *testing.T, name string, env ...string) *exec.Cmd {
	return startNamed(t, env, name, "-j2", "echo 界 {}; sleep 1000", ":::", "a", "b", "c")
}

func startNamed(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	with := func(args ...string) *exec.Cmd {
		cmd := crew(args...)
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	run := with(append([]string{"--name", name}, args...)...)
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		_ = run.Wait()
	})
	crewtest.Until(t, func() bool { return with("ctl", "status", name).Run() == nil }, "%s", name)
	return run
}

// TestTop runs crew ctl top as a user would.
func TestTop(t *testing.T) {
	t.Parallel()
	env := programTop(t)
	t.Run("restores", func(t *testing.T) { t.Parallel(); topRestores(t, env) })
	t.Run("stops", func(t *testing.T) { t.Parallel(); topStops(t, env) })
	t.Run("ends", func(t *testing.T) { t.Parallel(); topEnds(t, env) })
	t.Run("needs", func(t *testing.T) { t.Parallel(); topNeeds(t, env) })
}

// The terminal is the shell's again after every way to end: a key, the death of
// crew-top, that of crew, and a signal for crew.
func topRestores(t *testing.T, env []string) {
	startRun(t, "top-restores")
	// While crew-top leaves the terminal, a read of the shell may return at once.
	sh := exec.Command("sh", "-c", `while :; do if read line; then eval "$line"; echo "status $?"; else sleep 0.01; fi; done`)
	sh.Env = append(append(crew().Env, env...), "CREW="+os.Args[0])
	w := startOnTerminal(t, 80, sh)
	before := w.modes(t)
	const top = `"$CREW" ctl top top-restores` + "\n"
	for _, way := range []struct {
		name string
		end  func(crew, top int)
		says string
	}{
		{"key", func(_, _ int) { w.say(t, "q") }, `status 0\r`},
		{"Ctrl-C", func(_, _ int) { w.say(t, "\x03") }, `status 0\r`},
		{"crew-top is killed", func(_, top int) { _ = syscall.Kill(top, syscall.SIGKILL) }, `crew: crew-top was killed by SIGKILL\r\nstatus 1\r`},
		{"crew is told to end", func(crew, _ int) { _ = syscall.Kill(crew, syscall.SIGTERM) }, `status 143\r`},
		{"crew is killed", func(crew, _ int) { _ = syscall.Kill(crew, syscall.SIGKILL) }, `status 137\r`},
	} {
		w.say(t, top)
		w.hear(t, `top-restores(?s:.*)sleep 1000`)
		require.NotEqual(t, before, w.modes(t), way.name)
		launcher := child(t, sh.Process.Pid)
		program := child(t, launcher)
		way.end(launcher, program)
		if way.name == "crew is killed" { // the shell may be faster
			crewtest.Gone(t, program)
			w.say(t, "true\n")
			way.says = `status 0\r`
		}
		written := w.hear(t, way.says)
		require.Contains(t, written, "\x1b[?1049l", way.name) // from the alternate screen
		require.Contains(t, written, "\x1b[?25h", way.name)   // with the cursor
		require.Equal(t, before, w.modes(t), way.name)
	}
}

// Ctrl-Z gives the terminal back to the shell until fg, and again.
func topStops(t *testing.T, env []string) {
	startRun(t, "top-stops")
	sh := exec.Command("/bin/bash", "--norc", "--noprofile", "--noediting", "-i")
	sh.Env = append(append(crew().Env, env...), "CREW="+os.Args[0], "PS1=$ ", "HISTFILE=")
	w := startOnTerminal(t, 80, sh)
	w.hear(t, `\$ $`)
	before := w.modes(t)
	w.say(t, `"$CREW" ctl top top-stops`+"\n")
	w.hear(t, `top-stops(?s:.*)sleep 1000`)
	for range 2 {
		w.say(t, "\x1a")
		written := w.hear(t, `Stopped(?s:.*)\$ $`)
		require.Regexp(t, `\x1b\[\?1049l(?s:.*)Stopped`, written)
		require.NotContains(t, written, "\x1b[?1049h")
		require.Equal(t, before, w.modes(t))
		w.say(t, "fg\n")
		w.hear(t, `\x1b\[\?1049h(?s:.*)sleep 1000`)
	}
	w.say(t, "q")
	w.hear(t, `\x1b\[\?1049l(?s:.*)\$ $`)
	require.Equal(t, before, w.modes(t))
}

// A run that ends says so with its totals, and one that is killed is gone.
func topEnds(t *testing.T, env []string) {
	for how, sig := range map[string]syscall.Signal{"ended": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		name := "top-" + how
		run := startRun(t, name)
		top := crew("ctl", "top", name)
		top.Env = append(top.Env, env...)
		w := startOnTerminal(t, 80, top)
		w.hear(t, `2/2 workers busy`)
		require.NoError(t, run.Process.Signal(sig))
		w.hear(t, `the run (has ended|is gone: it was killed)`)
		w.say(t, "q")
		require.NoError(t, top.Wait())
	}
}

// Without a terminal or the program there is a line that says what to do.
func topNeeds(t *testing.T, env []string) {
	startRun(t, "top-needs")
	says := func(cmd *exec.Cmd, env ...string) string {
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out)
	}
	require.Equal(t, "crew: crew ctl top needs the program crew-top, which is neither beside crew nor in PATH: "+
		"run go install ./... in crew's source, or use crew ctl status\n", says(crew("ctl", "top"), "PATH="))
	require.Equal(t, "crew: crew ctl top has a screen to show, no replies: write crew ctl status --json\n",
		says(crew("ctl", "top", "--json"), env...))
	require.Equal(t, "crew-top: this needs a terminal that can place the cursor: use crew ctl status\n",
		says(crew("ctl", "top", "top-needs"), env...))
	top := filepath.SplitList(strings.TrimPrefix(env[0], "PATH="))[0] + "/crew-top"
	require.Equal(t, "crew-top: crew speaks version 99 of its protocol and crew-top version 2: install both from the same source\n",
		says(exec.Command(top, "--protocol", "99", "top-needs")))
}
