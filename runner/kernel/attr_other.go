//go:build !linux || crew_portable

package kernel

import "syscall"

// DieWith returns attr: a process does not learn that its parent has ended.
func DieWith(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return attr }
