package engine

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"crew/runner/crewtest"
	"crew/runner/front/wiring"
)

// openTestHub starts a server.
func openTestHub(dir string) (*server.Server, error) {
	return startServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT})
}

// start starts this test binary as another program.
func start(t *testing.T, env []string, args ...string) *crewtest.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = slices.Concat(os.Environ(), env, []string{"HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=" + crewtest.ShortDir(t)})
	return crewtest.New(t, cmd).Start()
}

// crew starts crew with arguments.
func crew(t *testing.T, args ...string) *crewtest.Process {
	t.Helper()
	return start(t, nil, append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
}

// steadyPort returns a free port for a server that will be restarted, outside the range from which
// systems choose free ports.
func steadyPort() string {
	for {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}
