package proc

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/kernel"
	"crew/runner/task"
)

// A task that is being started has not left crew's process group yet. Signals for that do
// not kill it, and Ctrl-Z does not stop it for ever. The test runs itself in a group of its own.
func TestSignalsOfTheGroupSpareTasks(t *testing.T) {
	const variable = "CREW_TEST_STORM"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return
	}
	l := local(t, nil)
	came, over := make(chan syscall.Signal, 1), make(chan struct{})
	require.NoError(t, kernel.Take(came, syscall.SIGUSR1, syscall.SIGTSTP))
	var storm sync.WaitGroup
	storm.Go(func() {
		for sig := syscall.SIGUSR1; ; {
			_ = syscall.Kill(0, sig)
			select {
			case <-over:
				return
			case sig = <-came:
			}
			if !kernel.Portable { // see TestSuspendWaitsForStarts
				sig = syscall.SIGUSR1 + syscall.SIGTSTP - sig // the other one
			}
		}
	})
	for range crewtest.Rounds(100) {
		require.Equal(t, task.OK, run(l, &task.Task{ID: 7, Argv: []string{"true"}}).Outcome)
	}
	close(over)
	storm.Wait()
}
