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
)

// awaitGuardian waits until the crew has the guardian that a run gets which is
// not over at once.
func (f *fault) awaitGuardian() {
	f.t.Helper()
	f.until(func() bool { return f.guardians() == 1 }, "a guardian")
}

// guardians is how many guardians this crew has.
func (f *fault) guardians() int {
	out, _ := exec.Command("pgrep", "-f", "^task-guardian "+strconv.Itoa(f.cmd.Process.Pid)+" ").Output()
	return strings.Count(string(out), "\n")
}

func TestFaultNothingOutlivesAKilledCrew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, output, script string }{
		{"children", "group", `sleep 600 & trap "" TERM HUP; echo $$ >> ready; sleep 600; sleep 600`},
		{"raw", "raw", `sleep 600 & echo $$ >> ready; wait`},
		{"stopped", "group", `trap "" HUP; sleep 600 & echo $$ >> ready; kill -STOP $$; wait`},
		{"without variables", "group", `echo $$ >> ready; exec env -i sleep 600`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, "-n0", "-j4", "--output", c.output, c.script, ":::", "a", "b", "c", "d")
			f.start().until(func() bool { return strings.Count(f.read("ready"), "\n") == 4 }, "four tasks")
			f.awaitGuardian()
			f.send(syscall.SIGKILL)
			f.dies(syscall.SIGKILL)
			f.gone()
			for _, word := range strings.Fields(f.read("ready")) {
				pid, err := strconv.Atoi(word)
				require.NoError(t, err)
				f.until(func() bool { return strings.Trim(f.state(pid), "Z") == "" }, "the end of %d", pid)
			}
		})
	}
}

func TestFaultALeaderDiesWithCrewBeforeThereIsAGuardian(t *testing.T) {
	t.Parallel()
	// Without room for its table there is never a guardian.
	f := newFault(t, "-q", "sleep", ":::", "600").under(`ulimit -f 0; exec "$@"`)
	f.start().until(func() bool { return len(f.alive()) == 1 }, "the task")
	f.send(syscall.SIGKILL)
	f.dies(syscall.SIGKILL)
	f.gone()
}

func TestFaultCrewInsideCrew(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j2", "/bin/sh", "./inner", ":::", "a", "b")
	f.cmd.Env = append(f.cmd.Env, "EXE="+os.Args[0])
	f.write("inner", `printf 'x\ny\n' | CREW_TEST_MAIN=1 "$EXE" -n0 -j2 'sleep 600 & echo >> ready; wait'`, 0o666)
	f.start().await("ready", "\n\n\n\n")
	f.awaitGuardian()
	f.send(syscall.SIGKILL)
	f.dies(syscall.SIGKILL)
	f.gone()
}

// TestFaultTheGuardianHoldsNothing: who reads what crew was given sees its end,
// and a run that ends as it should leaves no guardian.
func TestFaultTheGuardianHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		f := newFault(t, "-n0", `echo > ready; sleep 600`, ":::", "a")
		r, w, err := os.Pipe()
		require.NoError(t, err)
		f.cmd.Stdout, f.cmd.Stderr, f.cmd.ExtraFiles = w, w, []*os.File{w}
		f.start()
		require.NoError(t, w.Close())
		f.await("ready", "\n")
		f.awaitGuardian()
		f.send(end)
		f.dies(end)
		_, err = io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		f.until(func() bool { return f.guardians() == 0 }, "the guardian's end")
		f.gone()
	}
}
