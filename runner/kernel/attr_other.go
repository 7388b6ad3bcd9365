//go:build !linux || crew_portable

package kernel

import "syscall"

// Portable reports whether this is the portable form.
const Portable = true

// DieWith returns attr: a process does not learn that its parent has ended.
func DieWith(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return attr }
