package proc

import (
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// A task that is being started is still in crew's process group. Signals for that group do not kill
// it. See also TestSuspendWaitsForStarts.
func TestSignalsOfTheGroupSpareTasks(t *testing.T) {
	if !alone(t) {
		return
	}
	l := local(t, nil)
	came, over := make(chan syscall.Signal, 1), make(chan struct{})
	require.NoError(t, kernel.Notify(came, syscall.SIGUSR1))
	var storm sync.WaitGroup
	storm.Go(func() {
		for {
			_ = syscall.Kill(0, syscall.SIGUSR1)
			select {
			case <-over:
				return
			case <-came:
			}
		}
	})
	for range crewtest.Rounds(100) {
		require.Equal(t, task.OK, run(l, &task.Task{ID: 7, Argv: []string{"true"}}).Outcome)
	}
	close(over)
	storm.Wait()
}
