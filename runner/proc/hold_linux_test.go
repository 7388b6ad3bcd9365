package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// heldOfTest names the file that a test binary holds in TestHeldUntilAllAreGone.
const heldOfTest = "CREW_TEST_HELD"

// What a process holds that is killed stays open while what it ran lives, which its guardian
// kills; until then that is made to stand still.
func TestHeldUntilAllAreGone(t *testing.T) {
	if name := os.Getenv(heldOfTest); name != "" {
		f, err := os.Open(name)
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		l := local(t, func(c *Config) { c.Plan.Show = task.ShowRaw })
		l.Hold(int(f.Fd()))
		l.Lease(time.Now().Add(time.Hour))
		run(l, sh("trap '' TERM; sleep 1000 & echo $!; wait"))
		return
	}
	if !alone(t) {
		return
	}
	// A stopped process that became an orphan would continue.
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	name := filepath.Join(t.TempDir(), "file")
	crewtest.WriteFile(t, name, "", 0o600)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	lock := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), heldOfTest+"="+name)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var sleeper, guardian int
	_, err = fmt.Fscan(bufio.NewReader(out), &sleeper)
	require.NoError(t, err)
	crewtest.Until(t, func() bool { guardian = guardianOf(cmd.Process.Pid); return guardian > 0 }, "the guardian")
	require.NoError(t, syscall.Kill(guardian, syscall.SIGSTOP))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.True(t, crewtest.Alive(sleeper))
	require.ErrorIs(t, lock(), unix.EWOULDBLOCK)
	require.NoError(t, syscall.Kill(guardian, syscall.SIGCONT))
	crewtest.Until(t, func() bool { return lock() == nil }, "the lock")
	require.False(t, crewtest.Alive(sleeper))
}

// guardianOf returns the guardian of a process, or 0.
func guardianOf(pid int) (guardian int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		if strings.HasPrefix(string(text), fmt.Sprintf("%s\x00%d\x00", guardianName, pid)) {
			_, _ = fmt.Sscanf(name, "/proc/%d/", &guardian)
		}
	}
	return guardian
}
