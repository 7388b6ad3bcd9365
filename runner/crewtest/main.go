package crewtest

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"crew/runner/exec/kernel"
)

// Main runs the tests of a package independently of the environment. Sockets of runs go to a directory
// of their own. Parallel is the least number of parallel tests that run at once; it can be high, since
// most tests wait most of the time.
type Main struct {
	M        *testing.M
	Parallel int
}

// Run runs the tests and returns their exit status.
func (a Main) Run() int {
	syscall.Umask(0o022) // no other user may write to directories for --state
	for _, name := range []string{"MAKEFLAGS", "GITHUB_ACTIONS", "GITLAB_CI"} {
		_ = os.Unsetenv(name)
	}
	// Children must have the default action of signals that these tests ignore because they run
	// in the background of a script, or under nohup.
	ends := make(chan os.Signal, 1)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if kernel.Ignored(sig) {
			signal.Notify(ends, sig)
		}
	}
	_ = flag.Set("test.parallel", strconv.Itoa(max(a.Parallel, runtime.GOMAXPROCS(0))))
	dir, err := os.MkdirTemp("", "crew-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv("XDG_RUNTIME_DIR", dir)
	built.dir = filepath.Join(dir, "built")
	_ = os.Mkdir(built.dir, 0o700)
	go func() {
		<-ends
		os.Exit(1)
	}()
	return a.M.Run()
}

// built protects the directory for programs. Main makes and removes it.
var built struct {
	sync.Mutex
	dir string
}

// Build builds a package of crew as people install it, without cgo and -race, and returns the path of
// the program. All programs built by the tests of a package are in the same directory, and each is
// built once. Build skips the test if there is no go. TestMain must use Main.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	Needs(t, "go")
	built.Lock()
	defer built.Unlock()
	program := filepath.Join(built.dir, filepath.Base(pkg))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	tags := "urfave_cli_no_docs"
	if kernel.Portable {
		tags += ",crew_portable"
	}
	// Unlike go build, go run caches the linked program: other tests need not link it again.
	cmd := exec.Command("go", "run", "-exec", "cp", "-ldflags=-w", "-tags", tags, pkg, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// WriteFile writes a file that can be executed at once: no process that another test starts meanwhile
// has it open for writing.
func WriteFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// Needs skips the test if a program is not installed.
func Needs(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
}

// UTC makes UTC the local zone until the end of the test.
func UTC(t testing.TB) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
}

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var shortDirs sync.Map

// ShortDir returns a directory for the test whose name is short enough for sockets in it. The name of
// t.TempDir may be too long for that.
func ShortDir(t testing.TB) string {
	t.Helper()
	if dir, found := shortDirs.Load(t); found {
		return dir.(string)
	}
	dir, err := os.MkdirTemp("", "crew")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	shortDirs.Store(t, dir)
	return dir
}

// Output is an io.WriteCloser whose text can be read while others write. The zero Output is empty.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns everything that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Close does nothing.
func (o *Output) Close() error { return nil }
