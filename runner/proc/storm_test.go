package proc

import (
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/kernel"
	"crew/runner/task"
)

// A task that is being started has not left crew's process group yet. Signals for that do
// not kill it, and Ctrl-Z does not stop it for ever.
func TestSignalsOfTheGroupSpareTasks(t *testing.T) {
	if !alone(t) {
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
