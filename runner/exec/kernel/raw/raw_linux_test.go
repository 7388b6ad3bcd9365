//go:build (amd64 || arm64) && !crew_portable

package raw_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel/raw"
)

// start starts this test program without tests. Its runtime traces on stderr which packages it has
// initialised.
func start(t *testing.T, stderr *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env, cmd.Stderr = append(os.Environ(), "GODEBUG=inittrace=1"), stderr
	require.NoError(t, cmd.Start())
	return cmd
}

// TestEarlySignals: before packages other than the runtime's are initialised,
// SIGQUIT ends a process without the stacks of its goroutines, and SIGUSR1 and
// SIGUSR2 do nothing. The process stands still there because a pipe takes no more
// of the trace.
func TestEarlySignals(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, start(t, file).Wait())
	trace, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	here := bytes.Index(trace, []byte("init crew/runner/exec/kernel/raw "))
	require.GreaterOrEqual(t, here, 0, "%s", trace)
	require.Less(t, here, bytes.Index(trace, []byte("init syscall ")), "%s", trace)

	const line = 80 // bytes, about
	r, w, err := os.Pipe()
	require.NoError(t, err)
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	require.NoError(t, err)
	_, err = w.Write(make([]byte, size-here-5*line))
	require.NoError(t, err)
	cmd := start(t, w)
	crewtest.Until(t, func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n > size-3*line
	}, "the trace")
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		require.NoError(t, cmd.Process.Signal(sig))
		crewtest.Until(t, func() bool {
			status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
			return err == nil && bytes.Contains(status, []byte("\nShdPnd:\t0000000000000000\n"))
		}, "%v to be handled", sig)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
	require.NoError(t, w.Close())
	output, err := io.ReadAll(r)
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Equal(t, syscall.SIGQUIT, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	require.NotContains(t, string(output), "goroutine")
}

// A child whose calls succeed stores its ID, and makes no call after one that ends it.
func TestSpawn(t *testing.T) {
	calls := []raw.Call{{Number: syscall.SYS_GETPPID, Want: uintptr(os.Getpid())}, {Number: syscall.SYS_EXIT}, {Number: syscall.SYS_CLOSE}}
	var self int32
	pid, errno := raw.Spawn(calls, nil, &self, false)
	require.Zero(t, errno)
	_, err := syscall.Wait4(pid, nil, 0, nil)
	require.NoError(t, err)
	require.EqualValues(t, pid, self)
	require.Zero(t, calls[0].Err())
	require.Zero(t, calls[2].Err())
}
