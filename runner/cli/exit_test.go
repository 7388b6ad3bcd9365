package cli

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestStatus(t *testing.T) {
	boom := errors.New("write stdout: no space left on device")
	exit7 := &task.Result{Outcome: task.Exit, Code: 7}
	for _, c := range []struct {
		name string
		end  ending
		want int
	}{
		{"all well", ending{}, 0},
		{"trouble", ending{err: boom, failed: 2, signal: syscall.SIGINT}, 1},
		{"usage", ending{err: &usageError{"a", "b"}}, 2},
		{"some failed", ending{failed: 1}, 123},
		{"cannot execute", ending{start: 126, failed: 1}, 126},
		{"not found", ending{start: 127, failed: 1}, 127},
		{"interrupt", ending{signal: syscall.SIGINT, failed: 1}, 130},
		{"hangup", ending{signal: syscall.SIGHUP}, 129},
		{"terminate", ending{signal: syscall.SIGTERM}, 143},
		{"pipe", ending{signal: syscall.SIGPIPE}, 141},
		{"halt: exit", ending{halt: exit7, failed: 3}, 7},
		{"halt: signal", ending{halt: &task.Result{Outcome: task.Signal, Signal: 9}, failed: 1}, 137},
		{"halt: timeout", ending{halt: &task.Result{Outcome: task.Timeout, Signal: 15}, failed: 1}, 124},
		{"halt: start", ending{halt: &task.Result{Outcome: task.StartFailed, Code: 126}, failed: 1}, 126},
		{"halt: ok", ending{halt: &task.Result{Outcome: task.OK}}, 0},
		{"halt: cancelled", ending{halt: &task.Result{Outcome: task.Cancelled}, failed: 1}, 123},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.end.status()) })
	}
	require.Equal(t, 141, ending{signal: syscall.SIGPIPE}.exit())
	require.Equal(t, 7, ending{halt: exit7}.exit())
	require.Equal(t, 1, ending{signal: syscall.SIGTERM, err: boom}.exit())
}

func TestDiesBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CREW_TEST_SIGNAL="+strconv.Itoa(int(sig)))
		require.Error(t, cmd.Run())
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled(), sig)
		require.Equal(t, sig, status.Signal())
	}
}

func TestDiesWithStatusWhereIgnored(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "CREW_TEST_SIGNAL="+strconv.Itoa(int(syscall.SIGHUP)))
	require.Error(t, cmd.Run())
	require.Equal(t, 129, cmd.ProcessState.ExitCode())
}
