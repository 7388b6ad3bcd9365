package crewtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crew/runner/exec/kernel"
)

// markVariable is an environment variable that identifies the processes of a test.
const markVariable = "CREW_TEST_MARK"

// Process is a program that runs beside a test. Its output goes to files, because processes that it
// leaves behind would hold a pipe open.
type Process struct {
	Cmd   *exec.Cmd
	t     testing.TB
	dir   string        // holds the files with its output; also marks the processes that the program starts
	ended chan struct{} // closed once the program has ended
}

// New prepares a program. Unless cmd says otherwise, it runs in a new directory and writes its output
// to the files stdout and stderr there. At the end of the test, the program and all processes that it
// started are killed.
func New(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, t: t, dir: t.TempDir()}
	if cmd.Dir == "" {
		cmd.Dir = p.dir
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// Under -race a program sleeps for a second before it exits, unless this is set.
	cmd.Env = append(cmd.Env, markVariable+"="+p.dir, "GORACE=atexit_sleep_ms=0")
	if cmd.Stdout == nil {
		cmd.Stdout = p.create("stdout")
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.create("stderr")
	}
	t.Cleanup(func() {
		p.Kill()
		for _, pid := range p.Left() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if text := p.Stderr(); t.Failed() && text != "" {
			t.Logf("stderr of %.300q: %s", cmd.Args, text)
		}
	})
	return p
}

func (p *Process) create(name string) *os.File {
	f, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

// Start starts the program, unless it was already started through Cmd.
func (p *Process) Start() *Process {
	p.t.Helper()
	if p.Cmd.Process == nil {
		if err := p.Cmd.Start(); err != nil {
			p.t.Fatal(err)
		}
	}
	p.ended = make(chan struct{})
	go func() {
		_ = p.Cmd.Wait()
		close(p.ended)
	}()
	return p
}

// Stdout returns the standard output of the program so far.
func (p *Process) Stdout() string { return p.read("stdout") }

// Stderr returns the standard error of the program so far.
func (p *Process) Stderr() string { return p.read("stderr") }

func (p *Process) read(name string) string {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(text)
}

// Says waits until the program's output, as returned by from, contains text and ends with a newline. It
// returns the output.
func (p *Process) Says(from func() string, text string) (output string) {
	p.t.Helper()
	Until(p.t, func() bool {
		output = from()
		return strings.Contains(output, text) && strings.HasSuffix(output, "\n")
	}, "%q in %s", text, Seen(from))
	return output
}

// Wait waits for the end of the program and returns its status. A program that hangs is aborted, so
// that a trace shows where.
func (p *Process) Wait() syscall.WaitStatus {
	p.t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGABRT, syscall.SIGKILL} {
		select {
		case <-p.ended:
		case <-time.After(Patience):
			_ = p.Cmd.Process.Signal(sig)
			_ = p.Cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	<-p.ended
	return p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Exits waits for the end of the program and fails the test unless it exits with status.
func (p *Process) Exits(status int) {
	p.t.Helper()
	if ws := p.Wait(); !ws.Exited() || ws.ExitStatus() != status {
		p.t.Fatalf("%v, not exit status %d\n%s", p.Cmd.ProcessState, status, p.Stderr())
	}
}

// Dies waits for the end of the program and fails the test unless sig kills it.
func (p *Process) Dies(sig syscall.Signal) {
	p.t.Helper()
	if ws := p.Wait(); !ws.Signaled() || ws.Signal() != sig {
		p.t.Fatalf("%v, not signal %v\n%s", p.Cmd.ProcessState, sig, p.Stderr())
	}
}

// Send sends the program a signal.
func (p *Process) Send(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// Kill kills the program if it is running, and waits for its end.
func (p *Process) Kill() {
	if p.ended != nil {
		_ = p.Cmd.Process.Kill()
		<-p.ended
	}
}

// Left returns the running processes that the program has started.
func (p *Process) Left() (pids []int) {
	want := []byte(markVariable + "=" + p.dir + "\x00")
	for _, other := range kernel.Processes() {
		// A process that has ended and is not reaped yet has no environment any more.
		if p.Cmd.Process == nil || other.PID != p.Cmd.Process.Pid {
			if bytes.Contains(append(kernel.Environ(other.PID), 0), want) {
				pids = append(pids, other.PID)
			}
		}
	}
	return pids
}

// Gone waits until no process that the program has started is left.
func (p *Process) Gone() {
	p.t.Helper()
	Until(p.t, func() bool { return len(p.Left()) == 0 }, "the end of what %.300q has started", p.Cmd.Args)
}
