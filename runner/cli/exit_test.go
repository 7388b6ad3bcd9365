package cli

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/proc"
	"crew/runner/task"
)

func TestStatus(t *testing.T) {
	exit7 := &task.Result{Outcome: task.Exit, Code: 7}
	failed := task.Stats{}
	failed.ByOutcome[task.Exit] = 3
	first, some := runner.Halt{When: runner.Now, On: runner.OnFail, N: 1}, runner.Halt{When: runner.Soon, On: runner.OnFail, N: 3}
	ends := func(r task.Result) runner.Ending {
		return runner.Ending{Reason: runner.Halted, Result: &r, Stats: failed}
	}
	for _, c := range []struct {
		name string
		end  runner.Ending
		halt runner.Halt
		want int
	}{
		{"all well", runner.Ending{}, runner.Halt{}, 0},
		{"some failed", runner.Ending{Stats: failed}, runner.Halt{}, 123},
		{"cannot execute", runner.Ending{Reason: runner.BadCommand, Result: &task.Result{Code: 126}, Stats: failed}, runner.Halt{}, 126},
		{"not found", runner.Ending{Reason: runner.BadCommand, Result: &task.Result{Code: 127}, Stats: failed}, first, 127},
		{"gone for long", runner.Ending{Reason: runner.BadCommand, Result: &task.Result{Code: 127, Err: proc.ErrInVain}}, runner.Halt{}, 1},
		{"interrupt", runner.Ending{Reason: runner.Told, Signal: 2, Stats: failed}, runner.Halt{}, 130},
		{"hangup", runner.Ending{Reason: runner.Told, Signal: 1}, runner.Halt{}, 129},
		{"terminate", runner.Ending{Reason: runner.Told, Signal: 15, Result: exit7}, first, 143},
		{"a command", runner.Ending{Reason: runner.Told, Stats: task.Stats{InputEnd: true}}, runner.Halt{}, 0},
		{"a command before the input's end", runner.Ending{Reason: runner.Told}, runner.Halt{}, 123},
		{"cancelled", runner.Ending{Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.Cancelled: 1}}}, runner.Halt{}, 123},
		{"not run", runner.Ending{Reason: runner.Told, Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.NotRun: 1}}}, runner.Halt{}, 123},
		{"pipe", runner.Ending{Reason: runner.Unread, Signal: 2}, runner.Halt{}, 141},
		{"halt: exit", ends(*exit7), first, 7},
		{"halt: signal", ends(task.Result{Outcome: task.Signal, Signal: 9}), first, 137},
		{"halt: timeout", ends(task.Result{Outcome: task.Timeout, Signal: 15}), first, 124},
		{"halt: start", ends(task.Result{Outcome: task.StartFailed, Code: 126}), first, 126},
		{"halt: ok", ends(task.Result{Outcome: task.OK}), runner.Halt{On: runner.OnSuccess, N: 2}, 0},
		{"halt: cancelled", ends(task.Result{Outcome: task.Cancelled}), first, 123},
		{"halt: one of some", ends(*exit7), some, 123},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, statusOf(c.end, c.halt)) })
	}
	boom := errors.New("write stdout: no space left on device")
	require.Equal(t, 2, ending{err: &usageError{"a", "b"}}.exit())
	require.Equal(t, 141, ending{status: 141}.exit())
	require.Equal(t, 1, ending{signal: syscall.SIGTERM, err: boom, status: 123}.exit())
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
