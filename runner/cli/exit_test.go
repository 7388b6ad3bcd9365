package cli

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/proc"
	"crew/runner/task"
)

func TestStatus(t *testing.T) {
	exit7 := &task.Result{Outcome: task.Exit, Code: 7}
	failed := task.Stats{}
	failed.ByOutcome[task.Exit] = 3
	first, some := core.Halt{When: core.Now, On: core.OnFail, N: 1}, core.Halt{When: core.Soon, On: core.OnFail, N: 3}
	ends := func(r task.Result) core.Ending {
		return core.Ending{Reason: core.Halted, Result: &r, Stats: failed}
	}
	for _, c := range []struct {
		name string
		end  core.Ending
		halt core.Halt
		want int
	}{
		{"all well", core.Ending{}, core.Halt{}, 0},
		{"some failed", core.Ending{Stats: failed}, core.Halt{}, 123},
		{"cannot execute", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 126}, Stats: failed}, core.Halt{}, 126},
		{"not found", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 127}, Stats: failed}, first, 127},
		{"gone for long", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 127, Err: proc.ErrInVain}}, core.Halt{}, 1},
		{"interrupt", core.Ending{Reason: core.Told, Signal: 2, Stats: failed}, core.Halt{}, 130},
		{"hangup", core.Ending{Reason: core.Told, Signal: 1}, core.Halt{}, 129},
		{"terminate", core.Ending{Reason: core.Told, Signal: 15, Result: exit7}, first, 143},
		{"a command", core.Ending{Reason: core.Told, Stats: task.Stats{InputEnd: true}}, core.Halt{}, 0},
		{"a command before the input's end", core.Ending{Reason: core.Told}, core.Halt{}, 123},
		{"cancelled", core.Ending{Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.Cancelled: 1}}}, core.Halt{}, 123},
		{"not run", core.Ending{Reason: core.Told, Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.NotRun: 1}}}, core.Halt{}, 123},
		{"pipe", core.Ending{Reason: core.Unread, Signal: 2}, core.Halt{}, 141},
		{"halt: exit", ends(*exit7), first, 7},
		{"halt: signal", ends(task.Result{Outcome: task.Signal, Signal: 9}), first, 137},
		{"halt: timeout", ends(task.Result{Outcome: task.Timeout, Signal: 15}), first, 124},
		{"halt: start", ends(task.Result{Outcome: task.StartFailed, Code: 126}), first, 126},
		{"halt: ok", ends(task.Result{Outcome: task.OK}), core.Halt{On: core.OnSuccess, N: 2}, 0},
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
