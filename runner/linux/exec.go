package linux

import "syscall"

// DirError says that the working directory of a new process cannot be entered.
type DirError struct{ syscall.Errno }

// Wait waits until a child has ended and reaps it. ws and ru may be nil.
func Wait(pid int, ws *syscall.WaitStatus, ru *syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, ws, 0, ru); err != syscall.EINTR {
			return
		}
	}
}

// forkExec is syscall.ForkExec, but fails with a DirError if the directory is at
// fault.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	pid, err = syscall.ForkExec(path, argv, attr)
	if err != nil && attr.Dir != "" {
		var st syscall.Stat_t
		if bad, ok := syscall.Stat(attr.Dir+"/.", &st).(syscall.Errno); ok {
			return 0, DirError{bad}
		}
	}
	return pid, err
}

// program is what a DelayedExec starts.
type program struct {
	path       string
	argv, env  []string
	null, keep int // descriptors
}

// StartNow starts the program without a delay.
func (p *program) StartNow() (pid int, err error) {
	null, closed := uintptr(p.null), ^uintptr(0)
	files := []uintptr{null, null, null}
	for len(files) < p.keep {
		files = append(files, closed)
	}
	return syscall.ForkExec(p.path, p.argv, &syscall.ProcAttr{
		Dir: "/", Env: p.env, Files: append(files, uintptr(p.keep)), Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}
