package wiring

import (
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestServeNotifies has crew serve tell a socket that it is ready. What is added right
// after that runs, and no task has the socket.
func TestServeNotifies(t *testing.T) {
	t.Parallel()
	sockets := map[string]string{"path": crewtest.ShortDir(t) + "/notify"}
	if runtime.GOOS == "linux" { // which alone has such
		sockets["abstract"] = "@crew-test-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	for name, socket := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket})
			require.NoError(t, err)
			defer l.Close()
			dir := crewtest.ShortDir(t)
			with := func(args ...string) *exec.Cmd {
				cmd := crew(args...)
				cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir, notifySocket+"="+socket)
				return cmd
			}
			serve := with("serve", "--output=none", "-j1", `echo "{} ${NOTIFY_SOCKET-none}"`)
			require.NoError(t, serve.Start())
			t.Cleanup(func() { _ = serve.Process.Kill() })
			require.NoError(t, l.SetReadDeadline(time.Now().Add(crewtest.Patience)))
			said := make([]byte, 100)
			n, err := l.Read(said)
			require.NoError(t, err)
			require.Equal(t, "READY=1", string(said[:n]))
			out, err := with("ctl", "add", "--to", strconv.Itoa(serve.Process.Pid), "--wait", "task").Output()
			require.NoError(t, err)
			require.Equal(t, "task none\n", string(out))
			require.NoError(t, serve.Process.Signal(syscall.SIGTERM))
			require.EqualError(t, serve.Wait(), "signal: terminated")
		})
	}
}
