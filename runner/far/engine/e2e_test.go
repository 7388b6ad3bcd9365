package engine

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
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

// The ports for steadyPort begin anywhere, because other runs of these tests have ports, too.
var (
	firstPort  = rand.IntN(steadyPorts)
	triedPorts atomic.Int32
)

const steadyPorts = 12_000

// steadyPort returns a port for a server that will be restarted. It is free on all addresses, is not returned
// again, and is outside the range from which systems choose free ports.
func steadyPort() string {
	for {
		port := strconv.Itoa(20_000 + (firstPort+int(triedPorts.Add(1)))%steadyPorts)
		if l, err := net.Listen("tcp4", "0.0.0.0:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}
