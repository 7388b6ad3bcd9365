package proc

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// TestOwnStopsAreNotReported has crew stop a task, and then somebody else, twice. It
// runs alone: a stop of any child is told once, to whichever test asks first.
func TestOwnStopsAreNotReported(t *testing.T) {
	notices := make(chan string, 10)
	l := local(t, func(c *Config) { c.Notice = func(text string) { notices <- text } })
	ended := make(chan *task.Result)
	pidFile := t.TempDir() + "/pid"
	go func() { ended <- run(l, sh("echo $$ > "+pidFile+"; exec sleep 1000")) }()

	pid := crewtest.PID(t, pidFile)
	until := func(state string) {
		t.Helper()
		crewtest.Until(t, func() bool { return crewtest.State(pid) == state }, "state %s of the task", state)
	}
	look := func() (reported bool) {
		l.guardian.mu.Lock()
		defer l.guardian.mu.Unlock()
		l.reportStopped()
		l.groups.each(func(p *process) { reported = p.stopped })
		return reported
	}

	l.Suspend()
	until("T")
	require.False(t, look())
	l.Resume()
	until("S")
	require.False(t, look())
	for range 2 {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		until("T")
		require.True(t, look())
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		until("S")
	}
	l.Kill(7, 1)
	<-ended
	require.Contains(t, <-notices, " was stopped by SIGSTOP: kill -CONT -"+strconv.Itoa(pid)+" lets it go on")
	require.Empty(t, notices)
}
