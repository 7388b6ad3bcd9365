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

// TestStopWaitsForWhatStarts: a task that runs already, while crew does not know
// its id yet, stops with crew, too.
func TestStopWaitsForWhatStarts(t *testing.T) {
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
	go func() { g.stop(); close(stopped) }()
	for g.starting.TryRLock() { // which fails once stop waits
		g.starting.RUnlock()
		select {
		case <-stopped:
			t.Fatal("stop has not waited")
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
	g.goOn()
	none := &process{}
	g.reserve(none)
	g.abandon(none)
	g.stop() // which nothing holds up
	g.goOn()
}
