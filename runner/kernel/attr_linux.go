//go:build !crew_portable

package kernel

import "syscall"

// Portable reports whether this is the portable form.
const Portable = false

// DieWith has a process that is started with attr get a signal when the thread that starts
// it ends (PR_SET_PDEATHSIG). It returns attr.
func DieWith(attr *syscall.SysProcAttr, sig syscall.Signal) *syscall.SysProcAttr {
	attr.Pdeathsig = sig
	return attr
}
