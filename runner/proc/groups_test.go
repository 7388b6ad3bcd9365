package proc

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
		require.NoError(t, err)
		if strings.Contains(string(stat), "T (stopped)") {
			break
		}
	}
	g.resume()
	none := &process{}
	g.reserve(none)
	g.abandon(none)
	g.suspend() // does not block
	g.resume()
}
