//go:build !linux || crew_portable

package kernel

import "syscall"

// IsInit returns false: the portable code does not do the duties of process 1. It leaves them to a real
// init.
func IsInit() bool { return false }

// Run calls main and returns its exit status.
func Run(main func() int) int { return main() }

// Reset gives a signal its default action.
func Reset(sig syscall.Signal) { reset(sig) }

// Portable reports whether this is the portable code.
const Portable = true

// DieWithParent returns attr unchanged: a process is not told when its parent ends.
func DieWithParent(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return attr }
