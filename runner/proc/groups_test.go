package proc

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// A task that is running before crew knows its ID must stop, too.
func TestSuspendWaitsForStarts(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()

	var g groups
	l := local(t, nil)
	p := &process{local: l, attempt: task.Attempt{Task: sh("")}}
	g.reserve(p)
	p.pid = cmd.Process.Pid
	stopped := make(chan struct{})
	go func() { g.suspend(); close(stopped) }()
	for g.starting.TryRLock() { // fails once suspend waits
		g.starting.RUnlock()
		select {
		case <-stopped:
			t.Fatal("suspend did not wait")
		default:
			runtime.Gosched()
		}
	}
	g.add(p)
	<-stopped
	crewtest.Until(t, func() bool { return crewtest.State(p.pid) == "T" }, "the stop")
	l.groups.halted.Store(true)
	p.end(task.Cancelled, syscall.SIGTERM)
	require.Equal(t, "T", crewtest.State(p.pid), "what asked it to end before has no effect until all go on")
	l.groups.halted.Store(false)
	g.resume()

	none := &process{}
	g.reserve(none)
	g.abandon(none)
	g.suspend() // does not block
	g.resume()
}
