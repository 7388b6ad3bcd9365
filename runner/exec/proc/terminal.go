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

// terminalName is the controlling terminal of the process that opens the file.
const terminalName = "/dev/tty"

// foregroundCheck is the interval at which crew, in the background, checks whether it is in the
// foreground again.
const foregroundCheck = 50 * time.Millisecond

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	fd, err := openTerminal()
	kernel.Close(&fd)
	return err == nil
}

func openTerminal() (fd int, err error) {
	return syscall.Open(terminalName, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
}

// terminal is the controlling terminal. Tasks run in its foreground one at a time,
// as the jobs of a shell do. See "Implementing a Job Control Shell" in the GNU C Library
// Reference Manual.
//
// The terminal's signals go to the task. If Ctrl-Z stops it, crew stops its own process group as
// well, which includes the other programs of a pipeline and a script that called crew. If Ctrl-C ends
// it, the result says so (task.Result.Interrupted).
type terminal struct {
	fd   int
	own  int        // crew's process group
	turn sync.Mutex // held while a task runs

	mu      sync.Mutex
	holder  *process      // the task that runs, or nil
	given   bool          // holder is in the foreground
	modes   *unix.Termios // the terminal's modes before that; nil if they are unknown
	stopped *unix.Termios // the task's modes when crew took the terminal from it, or nil
}

func newTerminal() (*terminal, error) {
	fd, err := openTerminal()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", terminalName, err)
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}, nil
}

// foregroundGroup returns the process group in the terminal's foreground. It fails if crew
// has lost its terminal.
func (t *terminal) foregroundGroup() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// awaitForeground waits until crew is in the terminal's foreground. Until then, crew stops itself, as a
// program that reads the terminal is stopped. It fails if no shell is left that could continue
// crew.
func (t *terminal) awaitForeground(ctx context.Context) error {
	for {
		pgrp, err := t.foregroundGroup()
		if pgrp == t.own {
			break
		}
		shell, _ := unix.Getsid(os.Getppid())
		if own, _ := unix.Getsid(0); err == nil && shell != own {
			err = syscall.EIO // like read(2)
		}
		if err != nil {
			return fmt.Errorf("use %s: %w", terminalName, err)
		}
		_ = syscall.Kill(0, syscall.SIGTSTP)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(foregroundCheck):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modes, _ = kernel.Modes(t.fd)
	return nil
}

// taskStarted records that a process has just started. The process should be in the
// foreground already.
func (t *terminal) taskStarted(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder, t.stopped = p, nil
	t.given = t.setForegroundLocked(p.pid, nil) == nil
}

// startFailed puts crew into the foreground after a failed start: the process may have had the
// foreground before it failed to execute its program. t may be nil.
func (t *terminal) startFailed() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = t.setForegroundLocked(t.own, nil)
	}
}

// takeBackLocked puts crew into the foreground again, if the task was there, and restores the modes
// of the terminal. It returns the modes that the task had set, or nil. The caller must
// hold mu.
func (t *terminal) takeBackLocked() *unix.Termios {
	if !t.given {
		return nil
	}
	now, _ := kernel.Modes(t.fd)
	t.given = false
	_ = t.setForegroundLocked(t.own, t.modes)
	return now
}

// setForegroundLocked makes pgrp the foreground process group. Then it sets modes, unless they are
// nil. Meanwhile it ignores SIGTTOU, which would stop this process if it is in the background.
// The caller must hold mu.
func (t *terminal) setForegroundLocked(pgrp int, modes *unix.Termios) error {
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

// suspend takes the terminal back from a task that crew has just stopped.
func (t *terminal) suspend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = t.takeBackLocked()
}

// resume gives the terminal back to a task that crew is about to continue, unless
// crew itself continues in the background.
func (t *terminal) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pgrp, _ := t.foregroundGroup(); t.holder != nil && pgrp == t.own {
		t.modes, _ = kernel.Modes(t.fd)
		t.given = t.setForegroundLocked(t.holder.pid, t.stopped) == nil
	}
}

// awaitOnTerminal waits until the leader of a task on the terminal has exited, and takes the terminal back.
func (p *process) awaitOnTerminal(t *terminal) {
	for !kernel.Exited(p.pid, unix.WSTOPPED) {
		// Do not ask while crew itself stops the task, nor before crew has continued it: stoppedBy
		// reports each stop only once.
		p.groups.starting.RLock()
		sig := p.stoppedBy()
		p.groups.starting.RUnlock()
		if sig == 0 {
			continue // it is running again
		}
		pgrp, _ := t.foregroundGroup()
		early := (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && pgrp == p.pid
		if early || kernel.Ignored(syscall.SIGTSTP) {
			_ = syscall.Kill(-p.pid, syscall.SIGCONT) // it used the terminal before it was in the foreground, or no shell could continue crew
		} else {
			_ = syscall.Kill(0, syscall.SIGTSTP)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeBackLocked()
	t.holder = nil
}

// runOnTerminal is Run for a task that has the terminal.
func (l *Local) runOnTerminal(ctx context.Context, a task.Attempt) *task.Result {
	t := l.terminal
	t.turn.Lock()
	defer t.turn.Unlock()
	if err := t.awaitForeground(ctx); err != nil {
		r := a.End(0, nil, time.Now())
		StartFailed(ctx, r, err)
		return r
	}
	r := l.run(ctx, a)
	r.Interrupted = r.Outcome == task.Signal && syscall.Signal(r.Signal) == syscall.SIGINT
	return r
}
