package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestFaultRetriesKeepWhatAttemptsWrote(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-n0", "--json", "--results", "res", "--retries", "2", "--retry-delay", "1ms",
		`echo "out $CREW_ATTEMPT"; echo "err $CREW_ATTEMPT" >&2; exit $((4 - CREW_ATTEMPT))`, ":::", "a")
	f.start().Exits(123)
	var got struct {
		Attempt, Exit int
		Stdout        string
		Attempts      []struct {
			Attempt, Exit  int
			Stdout, Stderr string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(f.Stdout()), &got), "one object: %s", f.Stdout())
	require.Equal(t, 3, got.Attempt)
	require.Equal(t, 1, got.Exit)
	require.Equal(t, "out 3\n", got.Stdout)
	require.Len(t, got.Attempts, 2)
	require.Equal(t, 3, got.Attempts[0].Exit)
	require.Equal(t, "out 1\n", got.Attempts[0].Stdout)
	require.Equal(t, "err 2\n", got.Attempts[1].Stderr)
	require.Equal(t, "out 1\n", f.read("res/1/stdout.1"))
	require.Equal(t, "err 2\n", f.read("res/1/stderr.2"))
	require.Contains(t, f.read("res/1/result.json"), `"attempts":[{"outcome":"exit","exit":3,`)
	require.Contains(t, f.Stderr(), "crew:   attempt 1: exit 3 after ")
	require.Contains(t, f.Stderr(), "crew:   | err 1\n")
}

func TestFaultRetriesHoldNoWorkerAndEndWithTheRun(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", "--retries", "3", "--retry-delay", "100d", "--retry-max-delay", "100d",
		`case {} in slow) echo > ready; while [ ! -e go ]; do sleep 0.05; done;; *) exit 7; esac`, ":::", "a", "b", "slow", "late")
	f.start().await("ready", "\n") // so the two that wait hold no worker
	f.Send(syscall.SIGINT)
	f.await("stderr", "waiting for 1 running task (3); not retrying 2 failed tasks; Ctrl-C again ends them\n")
	f.write("go", "", 0o666)
	f.Dies(syscall.SIGINT)
	require.Regexp(t, `(?m)^crew: 1 of 4 tasks done in .*; 2 waiting for a retry, 1 not started$`, f.Stderr())
}

func TestFaultTimeoutEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-n0", "-j2", "--timeout", "0.3", "--kill-after", "0.3",
		`trap "" TERM; sleep 600 & sleep 600; sleep 600`, ":::", "a", "b")
	f.start().Exits(123)
	f.Gone()
	require.Contains(t, f.Stderr(), "timed out after ")
}

func TestFaultALeftoverHoldsTheRunOnlyForAMoment(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	f := newFault(t, "--json", `sleep 600 & echo begun; exit {}`, ":::", "0", "5")
	f.start().Exits(123)
	require.Less(t, time.Since(begin), crewtest.Patience)
	f.Gone() // it is of the task's group
	require.Equal(t, 2, strings.Count(f.Stdout(), `"leaked":true`))
	require.Equal(t, 2, strings.Count(f.Stdout(), `"stdout":"begun\n"`))
	require.Contains(t, f.Stdout(), `"outcome":"ok"`, "its own outcome counts")
	require.Contains(t, f.Stdout(), `"exit":5`)
	require.Contains(t, f.Stderr(), "crew: 2 tasks left something running that held the output open (1, 2)\n")
}

func TestFaultHalt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when   string
		status int
		ran    int // tasks that had their chance, at most
	}{
		{"never", 123, 40},
		{"soon,fail=1", 7, 8},
		{"now,fail=1", 7, 8},
		{"soon,fail=3", 123, 12},
		{"now,fail=10%", 123, 12},
		{"soon,done=4", 123, 12},
	} {
		t.Run(c.when, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, "-n0", "-j2", "--halt", c.when, "--joblog", "log", "exit 7", ":::")
			for range 40 {
				f.Cmd.Args = append(f.Cmd.Args, "x")
			}
			f.start().Exits(c.status)
			rows := strings.Count(f.read("log"), "\n") - 1
			require.LessOrEqual(t, rows, c.ran)
			require.Positive(t, rows)
			if c.when == "never" {
				require.Equal(t, 40, rows)
			}
		})
	}
}

// TestFaultADirectoryIsClosed: that is no fault of the command, so it ends one
// task alone; where it holds for all, nothing begins.
func TestFaultADirectoryIsClosed(t *testing.T) {
	t.Parallel()
	needRoot(t) // to become somebody who may not enter it
	for _, c := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{"of a task", []string{"-j1", "--input", "json"}, 123, "b\n", "crew: task 1: not started: change to directory closed: permission denied"},
		{"of all", []string{"--workdir", "closed", "echo"}, 2, "",
			"crew: change to directory closed: permission denied: give --workdir a directory that tasks can run in\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, c.args...).under(`exec "$@"`)
			f.Cmd.Stdin = strings.NewReader("{\"command\": \"echo a\", \"dir\": \"closed\"}\n{\"command\": \"echo b\"}\n")
			require.NoError(t, os.Mkdir(filepath.Join(f.dir, "closed"), 0o700))
			f.asUser(uint32(80000 + os.Getpid()%10000)) // not the one whose processes are limited
			f.start().Exits(c.status)
			require.Equal(t, c.stdout, f.Stdout())
			require.Contains(t, f.Stderr(), c.stderr)
		})
	}
}
