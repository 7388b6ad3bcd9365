package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestABusyMachineHidesNoCPUBoundTopic: time spent waiting for a processor counts
// as work.
func TestABusyMachineHidesNoCPUBoundTopic(t *testing.T) {
	start := time.Unix(100, 0)
	result := func(user, delay, took time.Duration) *task.Result {
		return &task.Result{User: user, RunDelay: delay, Start: start, End: start.Add(took)}
	}
	u := newUsages(2)
	u.saw(1, result(30*time.Millisecond, 60*time.Millisecond, 100*time.Millisecond)) // beside busy neighbours
	u.saw(2, result(5*time.Millisecond, 10*time.Millisecond, 100*time.Millisecond))
	most := u.most()
	require.Equal(t, 2, most(1))
	require.Greater(t, most(2), 1000)
	require.Greater(t, most(3), 1000, "nothing is known of it")
}
