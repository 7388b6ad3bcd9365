//go:build !riscv64

package wiring

import "golang.org/x/sys/unix"

// This has to happen before init exposes the calls.
var _ = func() bool {
	callNames[unix.SYS_RENAMEAT] = "renameat"
	byName[unix.SYS_RENAMEAT] = true
	return true
}()
