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

func TestFaultNothingOutlivesAKilledCrew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, output, script string }{
		{"children", "group", `sleep 600 & trap "" TERM HUP; echo $$ >> ready; sleep 600; sleep 600`},
		{"raw", "raw", `sleep 600 & echo $$ >> ready; wait`},
		{"stopped", "group", `trap "" HUP; sleep 600 & echo $$ >> ready; kill -STOP $$; wait`},
		{"without variables", "group", `echo $$ >> ready; [ $CREW_SEQ = 5 ] || exec env -i sleep 600; sleep 600`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, "-n0", "-j5", "--output", c.output, c.script)
			in := f.input()
			f.start()
			// In the portable form, crew knows of a task for sure once the next one has begun.
			for n, record := range []string{"a\n", "b\n", "c\n", "d\n", "e\n"} {
				_, err := io.WriteString(in, record)
				require.NoError(t, err)
				crewtest.Until(t, func() bool { return strings.Count(f.read("ready"), "\n") == n+1 }, "task %d", n+1)
			}
			f.awaitGuardian()
			f.Send(syscall.SIGKILL)
			f.Dies(syscall.SIGKILL)
			f.Gone()
			for _, word := range strings.Fields(f.read("ready")) {
				pid, err := strconv.Atoi(word)
				require.NoError(t, err)
				crewtest.Gone(t, pid)
			}
		})
	}
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
