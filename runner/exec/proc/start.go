package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// commandError means that the command cannot run, with any arguments.
type commandError struct {
	name   string // empty if the command is empty
	why    string
	status int // 126 or 127, as in a shell
}

func (e *commandError) Error() string {
	if e.name == "" {
		return "the command is empty"
	}
	return e.name + ": " + e.why
}

// dirAndPath returns the directory that a task runs in, empty for crew's own, and
// the PATH to search for its program.
func (l *Local) dirAndPath(t *task.Task) (dir, path string) {
	path, ok := pathIn(t.Env)
	if !ok && !t.Bare {
		path = l.env.path
	}
	return cmp.Or(t.Dir, l.Dir), path
}

// start starts the attempt's process. If that fails for a reason that may pass, it waits and
// tries again.
func (l *Local) start(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, &commandError{status: 127}
	}
	if err := holdsNUL(a.Task, argv); err != nil {
		return nil, err
	}
	p, err := l.startNow(ctx, a, argv)
	if err != nil && mayBeReplaced(err) {
		return l.startAfterWait(ctx, a, argv, err)
	}
	return p, err
}

// holdsNUL returns an error if a string of the task holds a NUL byte, which would end the string.
func holdsNUL(t *task.Task, argv []string) error {
	for i, words := range [...][]string{argv, {t.Key}, t.Env, {t.Dir}} {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "\x00") }) {
			what := [...]string{"an argument", "the key", "the environment", "the directory"}[i]
			return errors.New(what + " holds a NUL byte, which no command can take: split the input at NULs with -0")
		}
	}
	return nil
}

var errLeaseOver = errors.New("the lease of this worker is over")

// startOnce opens the pipes and tries once to start the process.
func (l *Local) startOnce(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	p := &process{Local: l, ctx: ctx, Attempt: a, out: -1, err: -1, in: -1, pidfd: -1}
	l.guardianOnce.Do(l.guardian.check)
	if l.live.Load() >= l.shortage.maxLive {
		return nil, fmt.Errorf("few processes are left: %w", syscall.EAGAIN)
	}
	pidOut := l.groups.reserve(p)
	err := p.openStreams()
	if err == nil && l.groups.lease.remaining() <= 0 { // now, because this process may have been stopped meanwhile
		err = errLeaseOver
	}
	if err == nil {
		err = ctx.Err() // also if it has waited for the end of a lease
	}
	if err == nil {
		if !l.shortage.threads.Load() && a.Task.Protocol == task.NoProtocol {
			p.pin = l.pins.Take(false)
		}
		err = l.spawn(p, argv, pidOut)
	}
	p.closeChildEnds(false)
	if err != nil {
		p.unpin()
		p.closeOurEnds()
		l.terminal.startFailed()
		l.groups.abandon(p)
		return nil, err
	}
	if l.live.Add(1) >= l.shortage.saveAbove {
		l.shortage.saveThreads()
	}
	if l.terminal != nil {
		l.terminal.taskStarted(p)
	}
	p.startTimer()
	if a.Task.Protocol == task.NoProtocol {
		p.Streams = l.OpenStreams(a) // before groups.add, because Live reads them from then on
	}
	l.groups.add(p)
	return p, nil
}

// spawn finds the program and executes it with the child's standard streams.
func (l *Local) spawn(p *process, argv []string, pidOut *int32) error {
	dir, path := l.dirAndPath(p.Task)
	attr := &syscall.ProcAttr{
		Dir: dir, Env: l.env.forAttempt(p.Attempt), Files: p.child[:],
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	if !l.guardian.isStarted() {
		attr.Sys = kernel.DieWithParent(attr.Sys, syscall.SIGKILL)
	}
	if l.terminal != nil {
		attr.Sys.Foreground, attr.Sys.Ctty = true, l.terminal.fd
	}
	for again := true; ; again = false {
		full, err := l.path.find(argv[0], path, dir)
		if err != nil {
			return err
		}
		p.started = time.Now()
		p.pid, err = l.spawner.Start(full, argv, attr, pidOut, p.pin)
		if err == syscall.ENOEXEC {
			// Like execvp(3), run a script without a #! line with the shell.
			p.pid, err = l.spawner.Start("/bin/sh", append([]string{"/bin/sh", full}, argv[1:]...), attr, pidOut, p.pin)
		}
		switch {
		case err == nil:
			l.lastProgram.Store(program{argv[0], dir, path})
			return nil
		case err == kernel.ErrExpired:
			return errLeaseOver
		case err == syscall.EINVAL && p.pin != nil:
			p.unpin()
		case err == syscall.ENOENT && again && l.path.forget(argv[0]):
		default:
			if bad := unix.Stat(dir+"/.", new(unix.Stat_t)); dir != "" && bad != nil {
				return fmt.Errorf("change to directory %s: %w", dir, bad)
			}
			return explainStartError(err, argv[0], full, dir)
		}
	}
}

// explainStartError turns an error of fork or exec into an error that names the cause.
func explainStartError(err error, name, full, dir string) error {
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, full)
	}
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, e := os.Lstat(full); e == nil {
			return &commandError{name, "its interpreter or loader is missing", 127}
		}
		return &commandError{name, err.Error(), 127}
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ELOOP, syscall.EISDIR, kernel.ErrFormat:
		if st, e := os.Stat(full); e == nil && st.IsDir() {
			return &commandError{name, "is a directory", 126}
		}
		return &commandError{name, err.Error(), 126}
	case syscall.E2BIG:
		return fmt.Errorf("%s: %w: give it fewer or shorter records, or use --stdin", name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
