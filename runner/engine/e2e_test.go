package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/wiring"
)

// In the environment of a test binary, asHub names the directory of a server that it
// is, at a port that it prints unless hubPort holds one.
const (
	asHub   = "CREW_TEST_HUB"
	hubPort = "CREW_TEST_PORT"
)

// openTestHub starts a server with crew's streams.
func openTestHub(dir, port string) (*server.Server, error) {
	n, _ := strconv.Atoi(port)
	if n == 0 {
		n = server.RANDOM_PORT
	}
	return startServer(&server.Options{Host: "127.0.0.1", Port: n, StoreDir: dir}, diskLimits)
}

// serveHub serves for ever.
func serveHub(dir, port string) error {
	s, err := openTestHub(dir, port)
	if err != nil {
		return err
	}
	fmt.Println(s.ClientURL())
	select {}
}

// start starts this test binary as another program.
func start(t *testing.T, env []string, args ...string) *crewtest.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = slices.Concat(os.Environ(), env, []string{"HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=" + crewtest.ShortDir(t)})
	return crewtest.New(t, cmd).Start()
}

// crewIn starts crew with another PATH.
func crewIn(t *testing.T, path string, args ...string) *crewtest.Process {
	t.Helper()
	return start(t, []string{"PATH=" + path}, append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
}

// crew starts crew with arguments.
func crew(t *testing.T, args ...string) *crewtest.Process {
	t.Helper()
	return crewIn(t, os.Getenv("PATH"), args...)
}

// startHub starts a server in this process for a test that runs beside other tests, and
// returns its URL.
func startHub(t *testing.T) string {
	t.Helper()
	t.Parallel()
	s, err := openTestHub(t.TempDir(), "")
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

// steadyPort returns a free port for a server that comes back: none of those that a system
// gives to others who ask for any.
func steadyPort() string {
	for {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}

// startHubProcess starts a server in a process of its own, with its files in dir and at
// a port that may be empty, and returns its URL.
func startHubProcess(t *testing.T, dir, port string) (hub *crewtest.Process, url string) {
	t.Helper()
	hub = start(t, []string{asHub + "=" + dir, hubPort + "=" + cmp.Or(port, steadyPort())})
	return hub, strings.TrimSpace(hub.Says(hub.Stdout, "nats://"))
}

// obeys returns the path of a program that runs its argument as a shell script.
func obeys(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "obey")
	crewtest.WriteFile(t, path, "#!/bin/sh\neval \"$1\"\n", 0o700)
	return path
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
