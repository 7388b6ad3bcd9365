package engine

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestNotifies: a hub and a worker notify systemd once they are ready. Then clients can connect, runs
// find the worker, and its tasks do not have the notification socket.
func TestNotifies(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(crewtest.ShortDir(t), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket})
	require.NoError(t, err)
	defer l.Close()
	ready := func(args ...string) *crewtest.Process {
		p := start(t, []string{"NOTIFY_SOCKET=" + socket}, append([]string{"--protocol", "2"}, args...)...)
		require.NoError(t, l.SetReadDeadline(time.Now().Add(crewtest.Patience)))
		said := make([]byte, 100)
		n, err := l.Read(said)
		require.NoError(t, err, p.Stderr())
		require.Equal(t, "READY=1", string(said[:n]))
		return p
	}
	dir := filepath.Join(t.TempDir(), "hub")
	hub := ready("engine", "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	w := ready("worker", "--engine", filepath.Join(dir, ownerFile), "sh", "-c", "env", "{}")
	p := crew(t, "--engine", filepath.Join(dir, ownerFile), "sh", "-c", "env", "{}", ":::", "a")
	p.Exits(0)
	require.NotContains(t, p.Stdout(), "NOTIFY_SOCKET")
	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)
	hub.Send(syscall.SIGTERM)
	hub.Exits(0)
}
