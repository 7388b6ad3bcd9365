package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

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
	s, err := startServer(&server.Options{Host: "127.0.0.1", Port: n, StoreDir: dir})
	if err != nil {
		return nil, err
	}
	c, err := dial("", nil, within(s))
	if err != nil {
		return nil, err
	}
	defer c.close()
	return s, c.create(context.Background(), diskLimits)
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
	return start(t, nil, append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
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

// startHub starts a server in this process and returns its URL.
func startHub(t *testing.T) string {
	t.Helper()
	s, err := openTestHub(t.TempDir(), "")
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

// startHubProcess starts a server in a process of its own, with its files in dir and at
// a port that may be empty, and returns its URL.
func startHubProcess(t *testing.T, dir, port string) (hub *process, url string) {
	t.Helper()
	hub = start(t, []string{asHub + "=" + dir, hubPort + "=" + port})
	return hub, strings.TrimSpace(hub.says(&hub.out, "nats://"))
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

// signal sends the process a signal.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// diedOf waits for the end of the process and checks which signal it died of.
func (p *process) diedOf(sig syscall.Signal) {
	p.t.Helper()
	var exit *exec.ExitError
	require.True(p.t, errors.As(p.ended(), &exit), "it did not fail")
	require.Equal(p.t, sig, exit.Sys().(syscall.WaitStatus).Signal(), p.err.String())
}

// obeys returns the path of a program that runs its argument as a shell script.
func obeys(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "obey")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\neval \"$1\"\n"), 0o700))
	return path
}

// exists waits until there is a file.
func exists(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, patience, 5*time.Millisecond, path)
}

// pidIn waits until a file holds the ID of a process, and returns that.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(path)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		pid = n
		return err == nil && strings.HasSuffix(string(text), "\n")
	}, patience, 5*time.Millisecond, path)
	return pid
}

// alive reports whether a process runs.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}
