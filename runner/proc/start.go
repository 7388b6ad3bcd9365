package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"crew/runner/linux"
	"crew/runner/task"
)

// commandError says that the command itself is at fault, whatever its
// arguments are.
type commandError struct {
	name   string
	why    string
	status int // 126 or 127, as a shell would say
}

func (e *commandError) Error() string { return e.name + ": " + e.why }

// surroundings are the directory in which a task runs, empty for crew's own, and
// the PATH in which its program is looked for.
func (l *Local) surroundings(t *task.Task) (dir, path string) {
	dir = l.cfg.Dir
	if t.Dir != "" {
		dir = t.Dir
	}
	return dir, l.env.pathOf(t)
}

// start starts the attempt's process. Where that fails for a reason that may
// pass, it waits and tries again.
func (l *Local) start(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	if len(argv) == 0 {
		return nil, &commandError{why: "the command is empty", status: 127}
	}
	if err := holdsNUL(a.Task, argv); err != nil {
		return nil, err
	}
	p, err := l.startNow(ctx, a, argv)
	if err != nil && unfinished(err) {
		return l.startLater(ctx, a, argv, err)
	}
	return p, err
}

// startNow starts the process, when there is what it takes.
func (l *Local) startNow(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	if !l.shortage.threads.Load() && l.shortage.waiting.Load() == 0 {
		if p, err := l.try(a, argv); !scarce(err) {
			return p, err
		}
	}
	return l.startInTurn(ctx, a, argv)
}

// holdsNUL says which part of a task holds a NUL byte, where that ends a string.
func holdsNUL(t *task.Task, argv []string) error {
	const why = " holds a NUL byte, which no command can be given"
	has := func(w string) bool { return strings.IndexByte(w, 0) >= 0 }
	switch {
	case slices.ContainsFunc(argv, has):
		return errors.New("an argument" + why + ": split the input at NULs with -0")
	case has(t.Key):
		return errors.New("the key" + why)
	case slices.ContainsFunc(t.Env, has):
		return errors.New("the environment" + why)
	case has(t.Dir):
		return errors.New("the directory" + why)
	}
	return nil
}

// try makes the pipes and starts the process once.
func (l *Local) try(a task.Attempt, argv []string) (*process, error) {
	p := &process{local: l, attempt: a, out: stream{fd: -1}, err: stream{fd: -1}, in: -1, pidfd: -1}
	born := l.groups.reserve(p)
	files, err := p.pipes()
	if err == nil {
		if !l.shortage.threads.Load() {
			p.pin = l.pins.Take()
		}
		err = l.spawn(p, argv, files, born)
	}
	p.closeChildEnds()
	if err != nil {
		p.unpin()
		p.closeOurEnds()
		l.groups.abandon(p)
		return nil, err
	}
	l.live.Add(1)
	l.groups.add(p)
	p.openWriters()
	return p, nil
}

// spawn execs argv with the three files as its standard streams.
func (l *Local) spawn(p *process, argv []string, files [3]uintptr, born *int32) error {
	dir, path := l.surroundings(p.attempt.Task)
	plain := dir == "" && path == l.env.path // what the cache is for
	attr := &syscall.ProcAttr{
		Dir: dir, Env: l.env.of(p.attempt), Files: files[:],
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}, // see guardian
	}
	for again := true; ; again = false {
		var full string
		var err error
		if plain {
			full, err = l.path.cached(argv[0], path)
		} else {
			full, err = find(argv[0], path, dir)
		}
		if err != nil {
			return err
		}
		p.started = time.Now()
		p.pid, err = l.spawner.Start(full, argv, attr, born, p.pin)
		if err == syscall.ENOEXEC {
			// A script without a #! line: execvp(3) gives it to the shell.
			p.pid, err = l.spawner.Start("/bin/sh", append([]string{"/bin/sh", full}, argv[1:]...), attr, born, p.pin)
		}
		switch {
		case err == nil:
			l.hasRun(newProgram(argv[0], dir, path))
			return nil
		case err == syscall.EINVAL && p.pin != nil:
			p.unpin()
		case err == syscall.ENOENT && again && plain && full != argv[0]:
			l.path.forget(argv[0])
		default:
			return explain(err, argv[0], full, dir)
		}
	}
}

// explain turns what fork and exec say into an error that names its cause.
func explain(err error, name, full, dir string) error {
	if bad := (linux.DirError{}); errors.As(err, &bad) {
		return fmt.Errorf("change to directory %s: %w", dir, bad.Errno)
	}
	switch err {
	case syscall.ENOENT:
		if _, e := os.Lstat(full); e == nil {
			return &commandError{name: name, why: "its interpreter or loader is missing", status: 127}
		}
		return &commandError{name: name, why: err.Error(), status: 127}
	case syscall.ENOTDIR:
		return &commandError{name: name, why: err.Error(), status: 127}
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ELOOP, syscall.EISDIR, syscall.ELIBBAD:
		if st, e := os.Stat(full); e == nil && st.IsDir() {
			return &commandError{name: name, why: "is a directory", status: 126}
		}
		return &commandError{name: name, why: err.Error(), status: 126}
	case syscall.E2BIG:
		return fmt.Errorf("%s: %w: give it fewer or shorter records, or use --stdin", name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
