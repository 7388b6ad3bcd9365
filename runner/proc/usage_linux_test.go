package proc

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// A task that works beside others waits for the processor, and so do its children.
func TestRunDelay(t *testing.T) {
	if !alone(t) {
		return
	}
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	runtime.LockOSThread()
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	for range 3 {
		busy := exec.Command("/bin/sh", "-c", "while :; do :; done")
		require.NoError(t, busy.Start())
		t.Cleanup(func() { _, _ = busy.Process.Kill(), busy.Wait() })
	}
	const work = "i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done"
	l := local(t, func(cfg *Config) { cfg.RunDelay = true })
	for _, script := range []string{work, work + "; (" + work + "); (" + work + ")"} {
		r := run(l, sh(script))
		require.Equal(t, task.OK, r.Outcome)
		require.Greater(t, r.RunDelay, r.User+r.System)
	}
	require.Zero(t, run(local(t, nil), sh("true")).RunDelay)
}
