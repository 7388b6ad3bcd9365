//go:build !linux || crew_portable

package kernel

import "syscall"

// Portable reports whether this is the portable form.
const Portable = true

// ContinueStarting continues the children in this process's own group that have stopped: the
// one that the Spawner is just starting, before it has a group of its own.
func ContinueStarting() {
	for pid := 1; pid > 0; {
		if pid, _ = Stopped(GroupChild, syscall.Getpgrp()); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// DieWith returns attr: a process does not learn that its parent has ended.
func DieWith(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return attr }
