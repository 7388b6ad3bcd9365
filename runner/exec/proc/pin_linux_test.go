//go:build amd64 || arm64

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const allowed = "Cpus_allowed_list"

// threadProcessors returns the distinct affinities of this process's threads, one per line.
func threadProcessors(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("grep -sh %s /proc/%d/task/*/status | sort -u", allowed, os.Getpid())).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func needProcessors(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("there is only one processor")
	}
}

// Pins must leave no trace in tasks, however they end, nor in this process.
func TestPinsLeaveAffinitiesAlone(t *testing.T) {
	needProcessors(t)
	l := local(t, nil)
	before := threadProcessors(t)
	require.NotContains(t, before, "\n")
	script := filepath.Join(t.TempDir(), "script")
	crewtest.WriteFile(t, script, "grep "+allowed+" /proc/self/status\n", 0o755)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range crewtest.Rounds(6) {
				for _, argv := range [][]string{{"grep", allowed, "/proc/self/status"}, {script}, {"no-such-command"}} {
					l.pins.Observe(kernel.Brief/2, int64(runtime.NumCPU()))
					r := run(l, &task.Task{ID: 1, Argv: argv})
					if got := strings.TrimSpace(text(t, r.Stdout)); got != before && !r.BadCommand {
						t.Errorf("%q says %q, not %q", argv, got, before)
					}
				}
			}
		})
	}
	workers.Wait()
	require.Equal(t, before, threadProcessors(t))
}

// A sandbox may forbid clone3(2). A start that should be pinned is then not pinned.
func TestAPinWithoutClone3(t *testing.T) {
	needProcessors(t)
	if without(t, unix.SYS_CLONE3) {
		TestPinsLeaveAffinitiesAlone(t)
	}
}

func TestAPinIsReleasedWhenATaskIsNotBrief(t *testing.T) {
	needProcessors(t)
	l := local(t, nil)
	l.pins.Observe(kernel.Brief/2, int64(runtime.NumCPU()))
	for _, script := range []string{
		"sleep 0.1; ",
		"yes | head -c 20000000 >&2; ",
	} {
		// Wait until no thread is pinned.
		script += "until [ $(grep -h " + allowed + " /proc/$PPID/task/*/status | sort -u | wc -l) = 1 ]; do sleep 0.05; done; " +
			"grep -h " + allowed + " /proc/$PPID/status"
		r := run(l, sh(script))
		require.Equal(t, threadProcessors(t), strings.TrimSpace(text(t, r.Stdout)))
		require.Nil(t, l.pins.Take(false))
	}
}
