package proc

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// terminalName is the controlling terminal of the process that opens it.
const terminalName = "/dev/tty"

// lookAgain is the interval at which crew, in the background, looks whether it is in the
// foreground again.
const lookAgain = 50 * time.Millisecond

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	fd, err := openTerminal()
	kernel.Close(&fd)
	return err == nil
}

func openTerminal() (fd int, err error) {
	return syscall.Open(terminalName, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
}

// terminal is the controlling terminal, in whose foreground tasks run one at a time,
// as jobs of a shell do. See "Implementing a Job Control Shell" in the GNU C Library
// Reference Manual.
//
// The terminal's signals go to the task. If Ctrl-Z stops it, crew stops its own process
// group, where the programs of the same pipeline and a script that called crew are,
// too. If Ctrl-C ends it, the result says so (task.Result.Interrupted).
type terminal struct {
	fd   int
	own  int        // crew's process group
	turn sync.Mutex // held while a task runs

	mu      sync.Mutex
	holder  *process      // the task that runs; nil for none
	given   bool          // it is in the foreground
	modes   *unix.Termios // before it was; nil if unknown
	stopped *unix.Termios // its own, if crew has taken the terminal from it
}

func newTerminal() (*terminal, error) {
	fd, err := openTerminal()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", terminalName, err)
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}, nil
}

// foreground returns the process group in the terminal's foreground. It fails if crew
// has lost its terminal.
func (t *terminal) foreground() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// await waits until crew is in the terminal's foreground. As long as it is not, it
// stops, as a program does that reads the terminal, unless no shell is left that
// could continue it.
func (t *terminal) await(ctx context.Context) error {
	for {
		pgrp, err := t.foreground()
		if pgrp == t.own {
			break
		}
		shell, _ := unix.Getsid(os.Getppid())
		if own, _ := unix.Getsid(0); err == nil && shell != own {
			err = syscall.EIO // as read(2) has it
		}
		if err != nil {
			return fmt.Errorf("use %s: %w", terminalName, err)
		}
		_ = syscall.Kill(0, syscall.SIGTSTP)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modes, _ = kernel.Modes(t.fd)
	return nil
}

// start is called with a process that has just started. It should be in the
// foreground already.
func (t *terminal) start(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder, t.stopped = p, nil
	t.given = t.put(p.pid, nil) == nil
}

// failed is called if no process could be started. One that could not execute its
// program may have had the foreground. t may be nil.
func (t *terminal) failed() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = t.put(t.own, nil)
	}
}

// takeBack puts crew into the foreground again, if the task had it, with the modes
// that the terminal had before. It returns the task's modes, or nil. The caller must
// hold mu.
func (t *terminal) takeBack() *unix.Termios {
	if !t.given {
		return nil
	}
	now, _ := kernel.Modes(t.fd)
	t.given = false
	_ = t.put(t.own, t.modes)
	return now
}

// put makes pgrp the foreground process group and then sets modes, unless that is
// nil. It ignores SIGTTOU meanwhile, which would stop this process, since only one in the
// foreground may do that. The caller must hold mu.
func (t *terminal) put(pgrp int, modes *unix.Termios) error {
	if !kernel.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
	}
	err := unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
	if modes != nil {
		_ = kernel.SetModes(t.fd, modes)
	}
	return err
}

// suspend takes the terminal back from a task that crew has stopped.
func (t *terminal) suspend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = t.takeBack()
}

// resume gives the terminal back to a task that crew is about to continue, unless
// crew itself continues in the background.
func (t *terminal) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pgrp, _ := t.foreground(); t.holder != nil && pgrp == t.own {
		t.modes, _ = kernel.Modes(t.fd)
		t.given = t.put(t.holder.pid, t.stopped) == nil
	}
}

// end takes the terminal back from a task whose leader has exited.
func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeBack()
	t.holder = nil
}

// attend waits until the leader of a task with the terminal has exited.
func (p *process) attend(t *terminal) {
	for !kernel.Exited(p.pid, unix.WSTOPPED) {
		// Not while crew itself has stopped it, nor before crew has continued it: what is
		// asked for only once is not to be lost.
		p.groups.starting.RLock()
		sig := p.stop()
		p.groups.starting.RUnlock()
		if sig == 0 {
			continue // it goes on again
		}
		pgrp, _ := t.foreground()
		early := (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && pgrp == p.pid
		if early || kernel.Ignored(syscall.SIGTSTP) {
			_ = syscall.Kill(-p.pid, syscall.SIGCONT) // it asked for the terminal before it had it; or nobody could continue crew
		} else {
			_ = syscall.Kill(0, syscall.SIGTSTP)
		}
	}
	t.end()
}

// runOnTerminal is Run for a task that has the terminal.
func (l *Local) runOnTerminal(ctx context.Context, a task.Attempt) *task.Result {
	t := l.terminal
	t.turn.Lock()
	defer t.turn.Unlock()
	if err := t.await(ctx); err != nil {
		r := newResult(a)
		StartFailed(ctx, r, err)
		return r
	}
	r := l.run(ctx, a)
	r.Interrupted = r.Outcome == task.Signal && syscall.Signal(r.Signal) == syscall.SIGINT
	return r
}
