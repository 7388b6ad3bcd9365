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

// markVariable stands in the environment of a test's processes, so that they are found
// again.
const markVariable = "CREW_TEST_MARK"

// Process is a program that runs beside a test. Its output goes to files: a pipe would be
// held open by whatever it leaves behind.
type Process struct {
	Cmd  *exec.Cmd
	t    testing.TB
	dir  string        // of the files with its output; it marks what the program starts, too
	over chan struct{} // closed once it has ended
}

// New prepares a program. Unless cmd says otherwise, it runs in a directory of its own, and
// has its output in the files stdout and stderr there. The end of the test kills the program
// and all that it has started.
func New(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, t: t, dir: t.TempDir()}
	if cmd.Dir == "" {
		cmd.Dir = p.dir
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// Under -race a program sleeps for a second before it exits, unless told.
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
		if said := p.Stderr(); t.Failed() && said != "" {
			t.Logf("%.300q said: %s", cmd.Args, said)
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

// Start starts the program, unless that was done with Cmd already.
func (p *Process) Start() *Process {
	p.t.Helper()
	if p.Cmd.Process == nil {
		if err := p.Cmd.Start(); err != nil {
			p.t.Fatal(err)
		}
	}
	p.over = make(chan struct{})
	go func() {
		_ = p.Cmd.Wait()
		close(p.over)
	}()
	return p
}

// Stdout returns what the program has written to its standard output so far.
func (p *Process) Stdout() string { return p.read("stdout") }

// Stderr returns what the program has written to its standard error so far.
func (p *Process) Stderr() string { return p.read("stderr") }

func (p *Process) read(name string) string {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(text)
}

// Says waits until what the program has written, as from returns it, is whole lines that
// hold text, and returns it.
func (p *Process) Says(from func() string, text string) (said string) {
	p.t.Helper()
	Until(p.t, func() bool {
		said = from()
		return strings.Contains(said, text) && strings.HasSuffix(said, "\n")
	}, "%q in %s", text, Seen(from))
	return said
}

// Wait returns how the program has ended, once it has. One that hangs is aborted: a trace
// says where.
func (p *Process) Wait() syscall.WaitStatus {
	p.t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGABRT, syscall.SIGKILL} {
		select {
		case <-p.over:
		case <-time.After(Patience):
			_ = p.Cmd.Process.Signal(sig)
			_ = p.Cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	<-p.over
	return p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// Exits waits for the end of the program, which is to be an exit with a status.
func (p *Process) Exits(status int) {
	p.t.Helper()
	if ws := p.Wait(); !ws.Exited() || ws.ExitStatus() != status {
		p.t.Fatalf("%v, not exit status %d\n%s", p.Cmd.ProcessState, status, p.Stderr())
	}
}

// Dies waits for the end of the program, which is to be a death by sig.
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

// Kill kills the program if it runs, and waits for its end.
func (p *Process) Kill() {
	if p.over != nil {
		_ = p.Cmd.Process.Kill()
		<-p.over
	}
}

// Left returns the processes that the program has started and that still run.
func (p *Process) Left() (pids []int) {
	want := []byte(markVariable + "=" + p.dir + "\x00")
	for _, other := range kernel.Processes() {
		// What has ended and is not reaped yet has no environment any more.
		if p.Cmd.Process == nil || other.PID != p.Cmd.Process.Pid {
			if bytes.Contains(append(kernel.Environ(other.PID), 0), want) {
				pids = append(pids, other.PID)
			}
		}
	}
	return pids
}

// Gone waits until none of the processes is left that the program has started.
func (p *Process) Gone() {
	p.t.Helper()
	Until(p.t, func() bool { return len(p.Left()) == 0 }, "the end of what %.300q has started", p.Cmd.Args)
}
