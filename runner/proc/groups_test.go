package proc

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// A task that is running before crew knows its ID must stop, too.
func TestSuspendWaitsForStarts(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()

	var g groups
	p := &process{}
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
	g.resume()

	// A process that Ctrl-Z has stopped before it could exec is continued.
	g.share(make([]int32, 4))
	late := &process{}
	*g.reserve(late) = int32(cmd.Process.Pid)
	require.NoError(t, syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP))
	crewtest.Until(t, func() bool { pid, _ := kernel.Stopped(kernel.OneChild, cmd.Process.Pid); return pid != 0 }, "the stop")
	stopped = make(chan struct{})
	go func() { g.suspend(); close(stopped) }()
	crewtest.Until(t, func() bool {
		var info unix.Siginfo
		err := unix.Waitid(kernel.OneChild, cmd.Process.Pid, &info, unix.WCONTINUED|unix.WNOHANG, nil)
		return err == nil && info.Signo != 0
	}, "the process to go on")
	g.abandon(late)
	<-stopped
	g.resume()

	none := &process{}
	g.reserve(none)
	g.abandon(none)
	g.suspend() // does not block
	g.resume()
}
