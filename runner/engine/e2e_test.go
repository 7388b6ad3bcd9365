package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"crew/runner/cli"
)

// In the environment of a test binary, asHub names the directory of a server that it
// is, at a port that it prints unless hubPort holds one.
const (
	asHub   = "CREW_TEST_HUB"
	hubPort = "CREW_TEST_PORT"
)

// serveHub serves for ever.
func serveHub(dir, port string) error {
	n, _ := strconv.Atoi(port)
	if n == 0 {
		n = server.RANDOM_PORT
	}
	s, err := startServer(&server.Options{Host: "127.0.0.1", Port: n, StoreDir: dir})
	if err != nil {
		return err
	}
	c, err := connect("", nil, within(s))
	if err == nil {
		err = c.create(context.Background(), diskLimits)
	}
	if err != nil {
		return err
	}
	fmt.Println(s.ClientURL())
	select {}
}

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// process is a process of a test.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out watched
	err watched
	end chan error
}

// watched is what a process writes.
type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// start starts this test binary as another program.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), end: make(chan error, 1)}
	p.cmd.Env = slices.Concat(os.Environ(), env,
		[]string{"HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=" + runtimeDir(t), "GORACE=atexit_sleep_ms=0"})
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	require.NoError(t, p.cmd.Start())
	go func() { p.end <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v said: %s", args, p.err.String())
		}
	})
	return p
}

// crew starts crew with arguments.
func crew(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, nil, append([]string{"--protocol", strconv.Itoa(cli.EngineProtocol)}, args...)...)
}

var runtimeDirs sync.Map

// runtimeDir is the directory for the sockets of a test's runs. Its path is short.
func runtimeDir(t *testing.T) string {
	if dir, ok := runtimeDirs.Load(t.Name()); ok {
		return dir.(string)
	}
	dir, err := os.MkdirTemp("", "crew")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	runtimeDirs.Store(t.Name(), dir)
	return dir
}

// startHub starts a server in a process of its own and returns its URL.
func startHub(t *testing.T) string {
	t.Helper()
	h := start(t, []string{asHub + "=" + t.TempDir()})
	return strings.TrimSpace(h.says(&h.out, "nats://"))
}

// says waits until the process has written text, and returns all it has written.
func (p *process) says(w *watched, text string) string {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(w.String(), text) && strings.HasSuffix(w.String(), "\n") },
		patience, 5*time.Millisecond, "waiting for %q from %v", text, p.cmd.Args)
	return w.String()
}

// ended waits for the end of the process.
func (p *process) ended() error {
	p.t.Helper()
	select {
	case err := <-p.end:
		p.end <- err
		return err
	case <-time.After(patience):
		p.t.Fatalf("%v does not end; it said: %s", p.cmd.Args, p.err.String())
		return nil
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err := <-p.end
	p.end <- err
}
