//go:build !linux || !(amd64 || arm64)

package proc

import "syscall"

// fledgling is a guardian that is about to be started.
type fledgling struct{ null, table int }

func newFledgling(null, table int) *fledgling { return &fledgling{null, table} }

// start starts it, at once a program of its own.
func (f *fledgling) start() (pid int, err error) {
	argv, env := guardianCommand(3)
	null := uintptr(f.null)
	return syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{null, null, null, uintptr(f.table)},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}
