//go:build !crew_portable

package wiring

import (
	"syscall"
	"testing"

	"crew/runner/crewtest"
)

func TestFaultALeaderDiesWithCrewBeforeThereIsAGuardian(t *testing.T) {
	t.Parallel()
	// Without room for its table there is never a guardian.
	f := newFault(t, "-q", "sleep", ":::", "600").under(`ulimit -f 0; exec "$@"`)
	f.start()
	crewtest.Until(t, func() bool { return len(f.Left()) == 1 }, "the task")
	f.Send(syscall.SIGKILL)
	f.Dies(syscall.SIGKILL)
	f.Gone()
}
