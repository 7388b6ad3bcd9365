package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
)

// The descriptor that a killed process held stays open until the guardian has killed all of its
// tasks.
func TestHeldUntilAllAreGone(t *testing.T) {
	if !alone(t) {
		return
	}
	// An orphaned stopped process would continue.
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	p, guardian, tasks := worker(t, time.Hour)
	crewtest.Until(t, func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guardian))
		return strings.HasPrefix(string(text), guardianName)
	}, "the guardian")
	require.NoError(t, syscall.Kill(guardian, syscall.SIGSTOP))
	p.Kill()
	require.True(t, crewtest.Alive(tasks[1]))
	f, err := os.Open(filepath.Join(p.Cmd.Dir, "lock"))
	require.NoError(t, err)
	defer f.Close()
	lock := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	require.ErrorIs(t, lock(), unix.EWOULDBLOCK)
	require.NoError(t, syscall.Kill(guardian, syscall.SIGCONT))
	crewtest.Until(t, func() bool { return lock() == nil }, "the lock")
	require.False(t, crewtest.Alive(tasks[1]))
}
