//go:build !linux || crew_portable

package kernel

import "syscall"

// IsInit returns false: the portable form is not for process 1, which it leaves to a
// real init.
func IsInit() bool { return false }

// Run calls main and returns the exit status that main returns.
func Run(main func() int) int { return main() }

// Reset gives a signal its default action.
func Reset(sig syscall.Signal) { reset(sig) }

// Portable reports whether this is the portable form.
const Portable = true

// DieWith returns attr: a process does not learn that its parent has ended.
func DieWith(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return attr }
