package linux

import "syscall"

// DirError says that the directory of a process to be started cannot be entered.
type DirError struct{ syscall.Errno }

// forkExec is syscall.ForkExec where what fails may be a DirError.
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

// StartNow starts it without a delay.
func (p *program) StartNow() (pid int, err error) {
	files := make([]uintptr, p.keep+1)
	for fd := range files {
		switch {
		case fd < 3:
			files[fd] = uintptr(p.null)
		case fd < p.keep:
			files[fd] = ^uintptr(0) // closed
		default:
			files[fd] = uintptr(fd)
		}
	}
	return syscall.ForkExec(p.path, p.argv, &syscall.ProcAttr{
		Dir: "/", Env: p.env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}
