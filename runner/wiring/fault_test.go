package wiring

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what has to happen: far longer than it
// takes on a busy machine.
const patience = 30 * time.Second

// markVariable stands in the environment of a test's processes, so that they
// are found again.
const markVariable = "CREW_TEST_MARK"

// fault is a crew in trouble: a process of its own, whose output goes to files,
// since a pipe would be held open by whatever it leaves behind.
type fault struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string // its working directory
	mark string
}

// newFault prepares a crew with these arguments in a directory of its own.
func newFault(t *testing.T, args ...string) *fault {
	t.Helper()
	f := &fault{t: t, cmd: crew(args...), dir: t.TempDir()}
	f.mark = f.dir
	f.cmd.Dir = f.dir
	f.cmd.Env = append(f.cmd.Env, markVariable+"="+f.mark, "GORACE=atexit_sleep_ms=0")
	f.cmd.Stdout, f.cmd.Stderr = f.create("stdout"), f.create("stderr")
	t.Cleanup(f.killAll)
	return f
}

// under has a shell script run before crew, which stands in it as "$@".
func (f *fault) under(script string) *fault {
	args := append([]string{"/bin/sh", "-c", script, "sh"}, f.cmd.Args...)
	f.cmd.Path, f.cmd.Args = args[0], args
	return f
}

func (f *fault) create(name string) *os.File {
	file, err := os.Create(filepath.Join(f.dir, name))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { file.Close() })
	return file
}

// start starts it.
func (f *fault) start() *fault {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Start())
	return f
}

// wait waits for its end.
func (f *fault) wait() syscall.WaitStatus {
	f.t.Helper()
	stop := time.AfterFunc(2*patience, func() {
		_ = f.cmd.Process.Signal(syscall.SIGABRT) // a trace says where it hangs
		_ = f.cmd.Process.Signal(syscall.SIGCONT)
	})
	defer stop.Stop()
	end := time.AfterFunc(3*patience, func() { _ = f.cmd.Process.Kill() }) // where nobody reads the trace
	defer end.Stop()
	_ = f.cmd.Wait()
	return f.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// ends waits for its end, which is to be an exit with this status.
func (f *fault) ends(status int) {
	f.t.Helper()
	ws := f.wait()
	require.True(f.t, ws.Exited(), "%v\n%s", ws, f.stderr())
	require.Equal(f.t, status, ws.ExitStatus(), f.stderr())
}

// dies waits for its end, which is to be a death by sig.
func (f *fault) dies(sig syscall.Signal) {
	f.t.Helper()
	ws := f.wait()
	require.True(f.t, ws.Signaled(), "status %d\n%s", ws.ExitStatus(), f.stderr())
	require.Equal(f.t, sig, ws.Signal())
}

func (f *fault) send(sig syscall.Signal) {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Process.Signal(sig))
}

// read is a file of its directory, empty where there is none.
func (f *fault) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	return string(b)
}

func (f *fault) stdout() string { return f.read("stdout") }
func (f *fault) stderr() string { return f.read("stderr") }

// write makes a file in its directory.
func (f *fault) write(name, text string, mode os.FileMode) {
	f.t.Helper()
	// No process that another test starts meanwhile may hold the file open for
	// writing: then it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), mode))
}

// await waits until the file of that name holds text.
func (f *fault) await(name, text string) {
	f.t.Helper()
	f.until(func() bool { return strings.Contains(f.read(name), text) }, "%s to hold %q", name, text)
}

func (f *fault) until(ok func() bool, what string, args ...any) {
	f.t.Helper()
	require.Eventually(f.t, ok, patience, 5*time.Millisecond, append([]any{"waited in vain for " + what}, args...)...)
}

// alive are the processes of this test, but for crew itself.
func (f *fault) alive() []int {
	var pids []int
	own := 0
	if f.cmd.Process != nil {
		own = f.cmd.Process.Pid
	}
	entries, err := os.ReadDir("/proc")
	require.NoError(f.t, err)
	want := []byte(markVariable + "=" + f.mark + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == own {
			continue
		}
		// What has ended and is not reaped yet has no environment any more.
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(append(env, 0), want) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until no process is left, and says how long that took.
func (f *fault) gone() time.Duration {
	f.t.Helper()
	begin := time.Now()
	f.until(func() bool { return len(f.alive()) == 0 }, "the end of %v", f.alive())
	return time.Since(begin)
}

// killAll ends what a failed test has left.
func (f *fault) killAll() {
	if f.cmd.Process != nil && f.cmd.ProcessState == nil {
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	}
	for _, pid := range f.alive() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// state is a process's state as ps shows it, such as S or T.
func (f *fault) state(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

// gate makes the fifo "gate": a shell that says "read x < gate" stands there, with no
// process beside it, until the gate is opened.
func (f *fault) gate() *fault {
	f.t.Helper()
	require.NoError(f.t, syscall.Mkfifo(filepath.Join(f.dir, "gate"), 0o666))
	return f
}

// open opens the gate for all who stand there and those who come later.
func (f *fault) open() {
	f.t.Helper()
	gate, err := os.OpenFile(filepath.Join(f.dir, "gate"), os.O_RDWR, 0)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { gate.Close() })
	_, err = gate.WriteString(strings.Repeat("\n", 1000))
	require.NoError(f.t, err)
}

// input is an open pipe to crew's stdin.
func (f *fault) input() io.WriteCloser {
	f.t.Helper()
	w, err := f.cmd.StdinPipe()
	require.NoError(f.t, err)
	return w
}

// blocks is a shell script that writes n blocks of 1024 bytes, each of one
// letter.
func blocks(n int) string { return "head -c " + strconv.Itoa(n<<10) + " /dev/zero | tr '\\0' x" }

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can set this up")
	}
}
