package wiring

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// awaitGuardian waits until the crew has the guardian that a run gets which is
// not over at once.
func (f *fault) awaitGuardian() {
	f.t.Helper()
	crewtest.Until(f.t, func() bool { return f.guardians() == 1 }, "a guardian")
}

// guardians is how many guardians this crew has.
func (f *fault) guardians() int {
	out, _ := exec.Command("pgrep", "-f", "^task-guardian "+strconv.Itoa(f.Cmd.Process.Pid)+" ").Output()
	return strings.Count(string(out), "\n")
}

func TestFaultCrewInsideCrew(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j2", "/bin/sh", "./inner", ":::", "a", "b")
	f.Cmd.Env = append(f.Cmd.Env, "EXE="+os.Args[0])
	f.write("inner", `printf 'x\ny\n' | CREW_TEST_MAIN=1 "$EXE" -n0 -j2 'sleep 600 & echo >> ready; wait'`, 0o666)
	f.start().await("ready", "\n\n\n\n")
	f.awaitGuardian()
	f.Send(syscall.SIGKILL)
	f.Dies(syscall.SIGKILL)
	f.Gone()
}

// TestFaultTheGuardianHoldsNothing: who reads what crew was given sees its end,
// and a run that ends as it should leaves no guardian.
func TestFaultTheGuardianHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		f := newFault(t, "-n0", `echo > ready; sleep 600`, ":::", "a")
		r, w, err := os.Pipe()
		require.NoError(t, err)
		f.Cmd.Stdout, f.Cmd.Stderr, f.Cmd.ExtraFiles = w, w, []*os.File{w}
		f.start()
		require.NoError(t, w.Close())
		f.await("ready", "\n")
		f.awaitGuardian()
		f.Send(end)
		f.Dies(end)
		_, err = io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		crewtest.Until(f.t, func() bool { return f.guardians() == 0 }, "the guardian's end")
		f.Gone()
	}
}
