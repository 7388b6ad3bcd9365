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

	// A process that Ctrl-Z has stopped before it could exec is continued.
	begun := exec.Command("sleep", "1000")
	begun.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, begun.Start())
	defer func() { _ = begun.Wait() }()
	defer func() { _ = begun.Process.Kill() }()
	late := &process{local: l}
	g.reserve(late)
	require.NoError(t, begun.Process.Signal(syscall.SIGSTOP))
	crewtest.Until(t, func() bool { return crewtest.State(begun.Process.Pid) == "T" }, "the stop")
	stopped = make(chan struct{})
	go func() { g.suspend(); close(stopped) }()
	crewtest.Until(t, func() bool { return crewtest.State(begun.Process.Pid) != "T" }, "the process to go on")
	g.abandon(late)
	<-stopped
	g.resume()

	none := &process{}
	g.reserve(none)
	g.abandon(none)
	g.suspend() // does not block
	g.resume()
}
